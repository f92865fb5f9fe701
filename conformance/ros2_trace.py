#!/usr/bin/env python3
"""Write a CTF 1.8 trace of a ROS 2 program as LTTng-UST records it: two nodes, a timer, a topic, 300 messages.

    ros2_trace.py FOLDER

The events are those of `tracetools` with their fields, each with vpid, vtid and procname.
"""
import pathlib, struct, sys

POINTER, TEXT, INT64, INT32, GID = "pointer", "text", "int64", "int32", "gid"
TYPES = {
    POINTER: "integer { size = 64; align = 8; signed = 0; base = 16; } {};",
    TEXT: "string {};",
    INT64: "integer { size = 64; align = 8; signed = 1; base = 10; } {};",
    INT32: "integer { size = 32; align = 8; signed = 1; base = 10; } {};",
    GID: "integer { size = 8; align = 8; signed = 0; base = 10; } {}[24];",
}
CODES = {POINTER: "<Q", INT64: "<q", INT32: "<i"}
EVENTS = {
    "rcl_init": {"context_handle": POINTER, "version": TEXT},
    "rcl_node_init": {"node_handle": POINTER, "rmw_handle": POINTER, "node_name": TEXT, "namespace": TEXT},
    "rmw_publisher_init": {"rmw_publisher_handle": POINTER, "gid": GID},
    "rcl_publisher_init": {
        "publisher_handle": POINTER,
        "node_handle": POINTER,
        "rmw_publisher_handle": POINTER,
        "topic_name": TEXT,
        "queue_depth": POINTER,
    },
    "rmw_subscription_init": {"rmw_subscription_handle": POINTER, "gid": GID},
    "rcl_subscription_init": {
        "subscription_handle": POINTER,
        "node_handle": POINTER,
        "rmw_subscription_handle": POINTER,
        "topic_name": TEXT,
        "queue_depth": POINTER,
    },
    "rclcpp_subscription_init": {"subscription_handle": POINTER, "subscription": POINTER},
    "rclcpp_subscription_callback_added": {"subscription": POINTER, "callback": POINTER},
    "rcl_timer_init": {"timer_handle": POINTER, "period": INT64},
    "rclcpp_timer_callback_added": {"timer_handle": POINTER, "callback": POINTER},
    "rclcpp_timer_link_node": {"timer_handle": POINTER, "node_handle": POINTER},
    "rclcpp_callback_register": {"callback": POINTER, "symbol": TEXT},
    "callback_start": {"callback": POINTER, "is_intra_process": INT32},
    "callback_end": {"callback": POINTER},
    "rclcpp_publish": {"message": POINTER},
    "rcl_publish": {"publisher_handle": POINTER, "message": POINTER},
    "rmw_publish": {"message": POINTER},
    "rmw_take": {"rmw_subscription_handle": POINTER, "message": POINTER, "source_timestamp": INT64, "taken": INT32},
    "rcl_take": {"message": POINTER},
    "rclcpp_take": {"message": POINTER},
}
BEGIN = 1_700_000_000_000_000_000

METADATA = """/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct {
    integer { size = 32; align = 8; base = 16; } magic; integer { size = 32; align = 8; } stream_id; }; };
env { hostname = "robot"; domain = "ust"; tracer_name = "lttng-ust"; tracer_major = 2; tracer_minor = 13; };
clock { name = "monotonic"; freq = 1000000000; offset_s = 1700000000; offset = 0; absolute = TRUE; };
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time_t;
stream { id = 0;
    packet.context := struct { time_t timestamp_begin; time_t timestamp_end;
        integer { size = 64; align = 8; } content_size; integer { size = 64; align = 8; } packet_size;
        integer { size = 32; align = 8; } cpu_id; };
    event.header := struct { integer { size = 16; align = 8; } id; time_t timestamp; };
    event.context := struct { integer { size = 32; align = 8; signed = 1; } _vpid;
        integer { size = 32; align = 8; signed = 1; } _vtid;
        integer { size = 8; align = 8; signed = 1; encoding = UTF8; } _procname[17]; }; };
"""


def metadata():
    text = METADATA
    for number, (name, fields) in enumerate(EVENTS.items()):
        members = []
        for field, kind in fields.items():
            size, _, array = TYPES[kind].partition(" {}")
            members.append(f"{size} _{field}{array}")
        text += f'event {{ name = "ros2:{name}"; id = {number}; stream_id = 0; fields := struct {{ {" ".join(members)} }}; }};\n'
    return text


def encode(name, time, values):
    own = struct.pack("<HQ", list(EVENTS).index(name), time) + struct.pack("<ii17s", 4242, 4243, b"talker")
    for kind, value in zip(EVENTS[name].values(), values):
        own += value.encode() + b"\0" if kind == TEXT else bytes(value) if kind == GID else struct.pack(CODES[kind], value)
    return own


def events():
    time = 1000
    setup = [
        ("rcl_init", 0x1000, "9.2.4"),
        ("rcl_node_init", 0x2000, 0x2100, "talker", "/"),
        ("rcl_node_init", 0x3000, 0x3100, "listener", "/"),
        ("rmw_publisher_init", 0x2200, range(24)),
        ("rcl_publisher_init", 0x2300, 0x2000, 0x2200, "/chatter", 10),
        ("rcl_timer_init", 0x2400, 10_000_000),
        ("rclcpp_timer_callback_added", 0x2400, 0x2500),
        ("rclcpp_timer_link_node", 0x2400, 0x2000),
        ("rclcpp_callback_register", 0x2500, "Talker::tick()"),
        ("rmw_subscription_init", 0x3200, range(1, 25)),
        ("rcl_subscription_init", 0x3300, 0x3000, 0x3200, "/chatter", 10),
        ("rclcpp_subscription_init", 0x3300, 0x3400),
        ("rclcpp_subscription_callback_added", 0x3400, 0x3500),
        ("rclcpp_callback_register", 0x3500, "Listener::hear(std::shared_ptr<Message>)"),
    ]
    for name, *values in setup:
        yield time, name, values
        time += 500
    for number in range(300):
        message = 0x9000 + number * 16
        took = 20_000 + number * 7919 % 50_000
        cycle = [
            ("callback_start", 0x2500, 0),
            ("rclcpp_publish", message),
            ("rcl_publish", 0x2300, message),
            ("rmw_publish", message),
            ("callback_end", 0x2500),
            ("rmw_take", 0x3200, message + 8, BEGIN + time, 1),
            ("rcl_take", message + 8),
            ("rclcpp_take", message + 8),
            ("callback_start", 0x3500, number % 2),
            ("callback_end", 0x3500),
        ]
        for name, *values in cycle:
            yield time, name, values
            time += took // 10
        time += 10_000_000


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(metadata())
    packets, waiting, size = b"", [], 0

    def packet():
        body = b"".join(bytes_of for _, bytes_of in waiting)
        bits = (8 + 36 + len(body)) * 8
        head = struct.pack("<IIQQQQI", 0xC1FC1FC1, 0, waiting[0][0], waiting[-1][0], bits, bits, 0)
        return head + body

    for time, name, values in events():
        own = encode(name, time, values)
        if size + len(own) > 8192:
            packets, waiting, size = packets + packet(), [], 0
        waiting.append((time, own))
        size += len(own)
    (folder / "channel0_0").write_bytes(packets + packet())


if __name__ == "__main__":
    main(*sys.argv[1:])
