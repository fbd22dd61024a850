"""Serves the files of a folder as the bucket `recordings`, on loopback, with moto's server, without and with TLS. After the
upload it checks users, permissions and signatures. Prints one JSON object with its endpoints, the file of its certificate
authority and the keys of its users. Exits at the end of its standard input."""

import datetime
import ipaddress
import json
import ssl
import sys
import threading
import urllib.request
from pathlib import Path

import boto3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

HOST = "127.0.0.1"
BUCKET = "recordings"
# Objects that belong to no recording: more than one page of a listing.
OTHERS = 1100
READS = {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": "*"}


def client(service, endpoint):
    keys = {"aws_access_key_id": "setup", "aws_secret_access_key": "setup"}
    return boto3.client(service, endpoint_url=endpoint, region_name="us-east-1", **keys)


def user(iam, name, statements):
    iam.create_user(UserName=name)
    if statements:
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}


def upload(s3, folder):
    s3.create_bucket(Bucket=BUCKET)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            s3.upload_file(str(path), BUCKET, path.relative_to(folder).as_posix())
    for number in range(OTHERS):
        s3.put_object(Bucket=BUCKET, Key="site/cluster=prod/broker=1/notes-%04d.txt" % number, Body=b"note")


def certificate(name, issuer, issuer_key, key, extension):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer or name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
    return builder.add_extension(extension, critical=True).sign(issuer_key, hashes.SHA256())


def tls(folder):
    """Creates a server certificate for this host in a folder. Returns its TLS context and the file of its authority."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = certificate("authority", None, authority_key, authority_key, x509.BasicConstraints(True, None))
    of_host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    own = certificate("store", authority.subject, authority_key, key, of_host)
    pem = serialization.Encoding.PEM
    (folder / "authority.pem").write_bytes(authority.public_bytes(pem))
    plain = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "own.pem").write_bytes(private + own.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem")
    return context, folder / "authority.pem"


def serve(context):
    """Starts a server; all servers of this process have the same buckets. Returns its URL."""
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server(HOST, 0, app, threaded=True, request_handler=MotoRequestHandler, ssl_context=context)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "%s://%s:%d" % ("https" if context else "http", HOST, server.server_port)


def main():
    folder, beside = (Path(argument) for argument in sys.argv[1:])
    context, authority = tls(beside)
    endpoint = serve(None)
    upload(client("s3", endpoint), folder)
    iam = client("iam", endpoint)
    users = {"reader": user(iam, "reader", [READS]), "stranger": user(iam, "stranger", [])}
    # From here on, every request is authenticated.
    plain = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(endpoint + "/moto-api/reset-auth", b"0", plain)).read()
    print(json.dumps({"endpoint": endpoint, "tls": serve(context), "authority": str(authority), **users}), flush=True)
    sys.stdin.read()


main()
