"""
Receive the messages of pyrsmq_producer.py, with PyRSMQ's API: python pyrsmq_consumer.py [PORT].

The third order fails at first and is received again. Expect a line for each attempt.
"""

import sys
import threading

from rsmq.pyrsmq import RedisSMQ
from rsmq.pyrsmq.consumer import RedisSMQConsumerThread

port = sys.argv[1] if len(sys.argv) > 1 else "6379"
done = []
finished = threading.Event()


def process(id, message, rc, ts):
    if message["order"] == 3 and rc == 1:
        print("order 3 fails")
        return False
    print("order", message["order"], "is done, try", rc)
    done.append(message["order"])
    if len(done) == 5:
        finished.set()
    return True


consumer = RedisSMQConsumerThread(
    "pyrsmq-orders", process, host="127.0.0.1", port=port, retry_delay=0.1, empty_queue_delay=0.1
)
consumer.start()
finished.wait(30)
consumer.stop(10)

queues = RedisSMQ(host="127.0.0.1", port=port, qname="pyrsmq-orders")
print("messages left:", queues.getQueueAttributes().execute()["msgs"])
queues.deleteQueue().execute()
