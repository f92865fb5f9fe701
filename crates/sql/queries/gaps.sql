-- The longest stretches without an event.
select previous as begin_ns, ns as end_ns, ns - previous as dur, duration(ns - previous) as length
from (select ns, lag(ns) over (order by ns) as previous from events)
where previous is not null order by dur desc, begin_ns limit 20;
