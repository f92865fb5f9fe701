-- Events in each $width, such as 100ms.
select bucket(ns, $width) as begin_ns, count(*) as events from events where ns is not null group by begin_ns order by begin_ns;
