import os
import sys

sys.dont_write_bytecode = True
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
from django.core.management import execute_from_command_line  # noqa: E402

execute_from_command_line(sys.argv)
