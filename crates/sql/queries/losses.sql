-- Events and packets that are missing, by stream.
select trace, stream_name, kind, sum(count) as lost, count(*) as stretches, min(begin_ns) as begin_ns, max(end_ns) as end_ns
from losses group by trace, stream_name, kind order by trace, stream_name, kind;
