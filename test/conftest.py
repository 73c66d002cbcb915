"""One thread of linear algebra in every test and in the processes they start, as `make test` sets it too.

The matrices of the tests are small: on a busy machine several threads wait for each other most of the time.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
