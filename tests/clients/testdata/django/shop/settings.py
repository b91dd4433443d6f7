import os

import pymysql

from shop.settings_jobs import JOBD  # noqa: F401

pymysql.install_as_MySQLdb()
SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
DATABASES = {"default": {
    "ENGINE": "django.db.backends.mysql",
    "HOST": os.environ["APP_HOST"], "PORT": os.environ["APP_PORT"], "NAME": os.environ["APP_DATABASE"],
    "USER": os.environ["APP_USER"], "PASSWORD": os.environ["APP_PASSWORD"],
    "OPTIONS": {"charset": "utf8mb4"},
}}
