---- MODULE VersionRows ----
\* Versions of a managed table (docs/decisions/0006): a staged manifest becomes a version by its row,
\* then its file is put into place. Any reader may finish; direct writers do not know of the rows.
EXTENDS Naturals, FiniteSets
CONSTANTS Managed, Direct, Last, Broken

Nobody == "nobody"
Versions == 1..Last
VARIABLES rows,   \* whose manifest each version is, by the catalog
          files,  \* whose manifest lies in the place of each version
          next,   \* the version each writer wants to make
          state   \* "looking", "staged", "placing", "told", "gave way"
vars == <<rows, files, next, state>>

Writers == Managed \cup Direct
Init == /\ rows = [v \in Versions |-> Nobody]
        /\ files = [v \in Versions |-> Nobody]
        /\ next = [w \in Writers |-> 0]
        /\ state = [w \in Writers |-> "looking"]

\* A managed writer sees rows and files; a direct one sees files only.
Taken(w, v) == files[v] # Nobody \/ (w \in Managed /\ rows[v] # Nobody)
Look(w) == /\ state[w] = "looking"
           /\ \E v \in Versions :
                /\ ~Taken(w, v) /\ \A u \in 1..(v - 1) : Taken(w, u)
                /\ next' = [next EXCEPT ![w] = v]
           /\ state' = [state EXCEPT ![w] = "staged"]
           /\ UNCHANGED <<rows, files>>

\* One commit of the catalog; versions of others found by their files get rows with it.
CommitRow(w) ==
    /\ w \in Managed /\ state[w] = "staged"
    /\ IF rows[next[w]] = Nobody /\ files[next[w]] = Nobody
       THEN /\ rows' = [v \in Versions |->
                          IF v = next[w] THEN w
                          ELSE IF rows[v] = Nobody /\ v < next[w] THEN files[v] ELSE rows[v]]
            \* The broken variant tells its client before the file has its place.
            /\ state' = [state EXCEPT ![w] = IF Broken THEN "told" ELSE "placing"]
       ELSE state' = [state EXCEPT ![w] = "looking"] /\ UNCHANGED rows
    /\ UNCHANGED <<files, next>>

\* Put-if-absent of the file, by the writer or by a reader that finds the row without its file.
Place(v) == /\ rows[v] # Nobody /\ files[v] = Nobody
            /\ files' = [files EXCEPT ![v] = rows[v]]
            /\ UNCHANGED <<rows, next, state>>

\* Who finds somebody else's file in its place gives way, and the row with it.
Conclude(w) ==
    /\ w \in Managed /\ state[w] = "placing" /\ files[next[w]] # Nobody
    /\ IF files[next[w]] = w
       THEN state' = [state EXCEPT ![w] = "told"] /\ UNCHANGED rows
       ELSE /\ rows' = [rows EXCEPT ![next[w]] = files[next[w]]]
            /\ state' = [state EXCEPT ![w] = "gave way"]
    /\ UNCHANGED <<files, next>>

PutDirectly(w) ==
    /\ w \in Direct /\ state[w] = "staged"
    /\ IF files[next[w]] = Nobody
       THEN /\ files' = [files EXCEPT ![next[w]] = w]
            /\ state' = [state EXCEPT ![w] = "told"]
       ELSE state' = [state EXCEPT ![w] = "looking"] /\ UNCHANGED files
    /\ UNCHANGED <<rows, next>>

Next == \/ \E w \in Writers : Look(w) \/ CommitRow(w) \/ Conclude(w) \/ PutDirectly(w)
        \/ \E v \in Versions : Place(v)
Spec == Init /\ [][Next]_vars

NothingLost == \A w \in Writers : state[w] = "told" =>
    \/ files[next[w]] = w
    \/ files[next[w]] = Nobody /\ rows[next[w]] = w
OncePerWriter == \A w \in Writers : Cardinality({v \in Versions : files[v] = w}) <= 1
NoGap == \A v \in Versions : files[v] # Nobody =>
    \A u \in 1..(v - 1) : files[u] # Nobody \/ rows[u] # Nobody
Safe == NothingLost /\ OncePerWriter /\ NoGap
====
