-- The threads whose function calls took longest, without what they called.
select tid, thread, count(*) as calls, sum(self) as self_ns from calls group by tid, thread order by self_ns desc nulls last, tid;
