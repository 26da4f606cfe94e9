---- MODULE MetastoreCommit ----
\* Commits of a metastore (docs/decisions/0016): one put-if-absent of the next entry decides; the
\* files of the model follow, written by its maker or by whoever comes next. Data files come before
\* the entry, under a lease; a cleaner fences a lease that has run out with an entry of its own.
EXTENDS Naturals, Sequences
CONSTANTS Txns, Objects, Broken

VARIABLES log,       \* the entries: what was decided, by whom
          published, \* how many entries have their files on disk
          start,     \* the snapshot of each transaction
          writes,    \* what it changes
          data,      \* whether its data files are there
          state      \* "idle", "open", "done", "refused", "dead"
vars == <<log, published, start, writes, data, state>>

Init == /\ log = <<>> /\ published = 0
        /\ start = [t \in Txns |-> 0]
        /\ writes = [t \in Txns |-> {}]
        /\ data = [t \in Txns |-> FALSE]
        /\ state = [t \in Txns |-> "idle"]

Begin(t) == /\ state[t] = "idle"
            /\ start' = [start EXCEPT ![t] = Len(log)]
            /\ \E objects \in (SUBSET Objects) \ {{}} : writes' = [writes EXCEPT ![t] = objects]
            /\ data' = [data EXCEPT ![t] = TRUE]
            /\ state' = [state EXCEPT ![t] = "open"]
            /\ UNCHANGED <<log, published>>

Since(t) == (start[t] + 1)..Len(log)
Conflicts(t) == \E i \in Since(t) : log[i].writes \cap writes[t] # {}
IsFenced(t) == \E i \in 1..Len(log) : log[i].fences = t

\* Look at the entries since the snapshot, make sure the last one is published, then decide.
\* The look and the put-if-absent are one step here: a put that fails looks again.
Decide(t) == /\ state[t] = "open" /\ ~Conflicts(t) /\ ~IsFenced(t) /\ published = Len(log)
             /\ log' = Append(log, [by |-> t, writes |-> writes[t], fences |-> "none"])
             /\ state' = [state EXCEPT ![t] = "done"]
             /\ UNCHANGED <<published, start, writes, data>>

Refuse(t) == /\ state[t] = "open" /\ (Conflicts(t) \/ IsFenced(t))
             /\ state' = [state EXCEPT ![t] = "refused"]
             /\ UNCHANGED <<log, published, start, writes, data>>

Publish == /\ published < Len(log)
           /\ published' = published + 1
           /\ UNCHANGED <<log, start, writes, data, state>>

\* A writer that dies, or is only slow: nobody can tell. So its lease is fenced first.
Die(t) == /\ state[t] = "open"
          /\ state' = [state EXCEPT ![t] = "dead"]
          /\ UNCHANGED <<log, published, start, writes, data>>

Committed(t) == \E i \in 1..Len(log) : log[i].by = t
Fence(t) == /\ state[t] \in {"open", "dead"} /\ ~IsFenced(t) /\ ~Committed(t) /\ ~Broken
            /\ published = Len(log)
            /\ log' = Append(log, [by |-> "cleaner", writes |-> {}, fences |-> t])
            /\ UNCHANGED <<published, start, writes, data, state>>

\* The broken variant believes the lease alone, and deletes what a slow writer goes on to commit.
Clean(t) == /\ data[t] /\ ~Committed(t)
            /\ IF Broken THEN state[t] \in {"open", "dead"} ELSE IsFenced(t)
            /\ data' = [data EXCEPT ![t] = FALSE]
            /\ UNCHANGED <<log, published, start, writes, state>>

Next == Publish \/ \E t \in Txns : Begin(t) \/ Decide(t) \/ Refuse(t) \/ Die(t) \/ Fence(t) \/ Clean(t)
Spec == Init /\ [][Next]_vars

\* Snapshot isolation: of two transactions that overlap in time and in what they write, one at most
\* commits. What is committed has its data, and at most the last entry waits for its files.
FirstWins == \A i, j \in 1..Len(log) :
    /\ i < j /\ log[i].by \in Txns /\ log[j].by \in Txns
    /\ log[i].writes \cap log[j].writes # {}
    => start[log[j].by] >= i
DataIsThere == \A t \in Txns : Committed(t) => data[t]
OneUnfinished == Len(log) - published <= 1
NothingLost == \A t \in Txns : state[t] = "done" => Committed(t)
Safe == FirstWins /\ DataIsThere /\ OneUnfinished /\ NothingLost
====
