-- How many events of each name there are.
select name, count(*) as events, min(ns) as first_ns, max(ns) as last_ns
from events group by name order by events desc, name;
