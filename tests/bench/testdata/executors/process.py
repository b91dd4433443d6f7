import sys

from app import run

sys.exit(run(int(sys.argv[1])))
