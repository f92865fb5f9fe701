#!/usr/bin/env python3
"""Writes the table of Perfetto's messages: the names, numbers and types of their fields, from its public schema.

    conformance/perfetto_messages.py > crates/format/src/perfetto/messages.txt

Needs the Python package `perfetto`, which holds the schema.
"""

from perfetto.protos.perfetto.trace import perfetto_trace_pb2

# Packets that are settings or tables for other programs: they are counted by their names, not decoded.
LEFT_OUT = {
    "TraceConfig", "ExtensionDescriptor", "ProtoVms", "TranslationTable", "PixelModemTokenDatabase", "ModuleSymbols",
    "DeobfuscationMapping", "PackagesList", "ChromeMetadataPacket", "ChromeEventBundle", "InternedData",
    "TracePacketDefaults", "AndroidGameInterventionList", "StatsdAtom", "SurfaceFlingerLayersSnapshot", "UiState",
    "ChromeBenchmarkMetadata", "SmapsPacket", "InodeFileMap", "VulkanMemoryEvent", "VulkanApiEvent", "TestEvent",
    "PerfettoMetatrace", "EtwTraceEventBundle", "GraphicsFrameEvent", "GpuRenderStageEvent", "V8JsCode",
    "V8InternalCode", "V8WasmCode", "V8RegExpCode", "V8CodeMove", "AndroidUserList", "AndroidAflags",
}
# Types of protocol buffers by their numbers in descriptors.
KINDS = {
    1: "f64", 2: "f32", 3: "i64", 4: "u64", 5: "i32", 6: "x64", 7: "x32", 8: "bool", 9: "text", 12: "bytes", 13: "u32",
    15: "x32", 16: "x64", 17: "z64", 18: "z64",
}
PACKAGE = "perfetto.protos."


def main():
    pending = [perfetto_trace_pb2.DESCRIPTOR.message_types_by_name["TracePacket"]]
    messages, enums = {}, {}
    while pending:
        message = pending.pop()
        name = message.full_name.removeprefix(PACKAGE)
        if name in messages:
            continue
        fields = []
        for field in sorted(message.fields, key=lambda field: field.number):
            own = field.message_type or field.enum_type
            kind = KINDS.get(field.type) or own.full_name.removeprefix(PACKAGE)
            if field.message_type:
                if own.name in LEFT_OUT:
                    kind = "bytes"
                else:
                    pending.append(own)
            if field.enum_type:
                enums[kind] = own
            fields.append(f"{field.number}:{field.name}:{kind}{'*' if field.is_repeated else ''}")
        messages[name] = " ".join(["message", name, *fields])
    print("# Made by conformance/perfetto_messages.py: do not edit. See mod.rs for its form.")
    for name in sorted(messages):
        print(messages[name])
    for name in sorted(enums):
        print(" ".join(["enum", name, *(f"{value.number}:{value.name}" for value in enums[name].values)]))


main()
