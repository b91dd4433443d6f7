"""Sends the request of a browser through Django."""
import os
import sys

sys.dont_write_bytecode = True
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django  # noqa: E402

django.setup()
from django.test import Client  # noqa: E402

print(Client().get("/order/" + sys.argv[1]).content.decode())
