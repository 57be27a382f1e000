"""
Send five orders with PyRSMQ's API: python pyrsmq_producer.py [PORT].

Expect one line for each; pyrsmq_consumer.py receives them.
"""

import sys

from rsmq.pyrsmq import RedisSMQ

port = sys.argv[1] if len(sys.argv) > 1 else "6379"
queues = RedisSMQ(host="127.0.0.1", port=port, qname="pyrsmq-orders")

queues.createQueue().vt(20).quiet(True).exceptions(False).execute()
for number in range(1, 6):
    delay = 0.2 if number == 5 else 0
    queues.sendMessage(delay=delay).message({"order": number}).execute()
    print("sent order", number)
queues.quit()
