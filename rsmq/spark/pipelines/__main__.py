"""
``python -m rsmq.spark.pipelines``, and the file for spark-submit.
"""

import sys

from rsmq.spark.pipelines.command import main

if __name__ == "__main__":
    sys.exit(main())
