---- MODULE Publish ----
\* Several tables in one step (docs/decisions/0018): manifests are staged, one commit of the catalog
\* names all new versions, the files follow. A reader takes the rows of one catalog version.
EXTENDS Naturals
CONSTANTS Tables, Publishers, Last, Broken

VARIABLES rows,    \* the version of each table, by the catalog
          files,   \* the newest version of each table that has its file
          base,    \* what each publisher's versions were built on
          left,    \* the tables it has still to commit
          state,   \* "open", "staged", "done", "refused"
          read     \* what a reader has seen, once it has
vars == <<rows, files, base, left, state, read>>

Unread == [t \in Tables |-> Last + 1]
Init == /\ rows = [t \in Tables |-> 0]
        /\ files = [t \in Tables |-> 0]
        /\ base = [p \in Publishers |-> [t \in Tables |-> 0]]
        /\ left = [p \in Publishers |-> Tables]
        /\ state = [p \in Publishers |-> "open"]
        /\ read = Unread

Stage(p) == /\ state[p] = "open"
            /\ base' = [base EXCEPT ![p] = rows]
            /\ state' = [state EXCEPT ![p] = "staged"]
            /\ UNCHANGED <<rows, files, left, read>>

\* All rows or none; a table that has moved makes the whole step start again.
Commit(p) == /\ ~Broken /\ state[p] = "staged"
             /\ IF rows = base[p]
                THEN /\ rows' = [t \in Tables |-> rows[t] + 1]
                     /\ state' = [state EXCEPT ![p] = "done"]
                ELSE /\ state' = [state EXCEPT ![p] = "open"]
                     /\ UNCHANGED rows
             /\ UNCHANGED <<files, base, left, read>>

\* The broken variant commits table by table, as Lance alone does.
CommitOne(p) == /\ Broken /\ state[p] = "staged"
                /\ \E t \in left[p] :
                     /\ rows[t] = base[p][t]
                     /\ rows' = [rows EXCEPT ![t] = @ + 1]
                     /\ left' = [left EXCEPT ![p] = @ \ {t}]
                     /\ state' = [state EXCEPT ![p] = IF left[p] = {t} THEN "done" ELSE "staged"]
                /\ UNCHANGED <<files, base, read>>

Place(t) == /\ files[t] < rows[t]
            /\ files' = [files EXCEPT ![t] = @ + 1]
            /\ UNCHANGED <<rows, base, left, state, read>>

Read == /\ read = Unread
        /\ read' = rows
        /\ UNCHANGED <<rows, files, base, left, state>>

Next == Read \/ (\E p \in Publishers : Stage(p) \/ Commit(p) \/ CommitOne(p)) \/ (\E t \in Tables : Place(t))
Spec == Init /\ [][Next]_vars

\* Every publisher changes every table once, so whoever reads must find them equally new.
ReadsAreWhole == read # Unread => \A t, u \in Tables : read[t] = read[u]
FilesFollow == \A t \in Tables : files[t] <= rows[t]
Safe == ReadsAreWhole /\ FilesFollow
====
