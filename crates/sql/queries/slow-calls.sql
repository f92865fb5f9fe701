-- The function calls that took longest.
select name, tid, ns, dur, self, depth from calls where dur is not null order by dur desc, ns limit 20;
