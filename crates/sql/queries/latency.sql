-- Times from events $from to the next $to of equal fields $by: how many, and how long.
select count(*) as pairs, min(dur) as min_ns, approx_percentile_cont(dur, 0.5) as p50_ns,
       approx_percentile_cont(dur, 0.99) as p99_ns, max(dur) as max_ns, sum(dur) as total_ns
from match_pairs($from, $to, $by);
