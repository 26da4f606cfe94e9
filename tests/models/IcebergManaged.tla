---- MODULE IcebergManaged ----
\* Commits that an Iceberg REST catalog arbitrates: a client stages a manifest, then asks the
\* catalog to move the current snapshot from the version it saw to the next. The answer may be lost.
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Clients, Broken

VARIABLES log,    \* the snapshots of the table, by whom
          seen,   \* the version each client builds on
          state   \* "looking", "staged", "unsure", "told", "gone"
vars == <<log, seen, state>>

Init == /\ log = <<>>
        /\ seen = [c \in Clients |-> 0]
        /\ state = [c \in Clients |-> "looking"]

Look(c) == /\ state[c] = "looking"
           /\ seen' = [seen EXCEPT ![c] = Len(log)]
           /\ state' = [state EXCEPT ![c] = "staged"]
           /\ UNCHANGED log

\* assert-ref-snapshot-id: the catalog refuses if the snapshot has moved (409).
Commit(c) == /\ state[c] = "staged"
             /\ IF Len(log) = seen[c]
                THEN /\ log' = Append(log, c)
                     /\ \E told \in {"told", "unsure"} : state' = [state EXCEPT ![c] = told]
                ELSE /\ state' = [state EXCEPT ![c] = "looking"]
                     /\ UNCHANGED log
             /\ UNCHANGED seen

\* Nobody knows what became of a commit without an answer until the snapshots are read.
\* The broken variant takes the lost answer for a failure, and commits once more.
FindOut(c) == /\ state[c] = "unsure"
              /\ state' = [state EXCEPT ![c] = IF ~Broken /\ log[seen[c] + 1] = c
                                               THEN "told" ELSE "looking"]
              /\ UNCHANGED <<log, seen>>

Die(c) == /\ state[c] \in {"looking", "staged", "unsure"}
          /\ state' = [state EXCEPT ![c] = "gone"]
          /\ UNCHANGED <<log, seen>>

Next == \E c \in Clients : Look(c) \/ Commit(c) \/ FindOut(c) \/ Die(c)
Spec == Init /\ [][Next]_vars

Times(c) == Cardinality({i \in 1..Len(log) : log[i] = c})
Safe == /\ \A c \in Clients : Times(c) <= 1
        /\ \A c \in Clients : state[c] = "told" => Times(c) = 1
====
