---- MODULE ManifestCas ----
\* Commits to the directory catalog (docs/decisions/0002): whoever makes the file of the next
\* version appear has committed; whoever comes second looks again. Replies may be lost.
\* Half of the writers make a table in a namespace, the others drop the namespace when it is empty.
EXTENDS Naturals, Sequences
CONSTANTS Makers, Droppers, Broken

Writers == Makers \cup Droppers
Nobody == "nobody"
VARIABLES log,    \* the versions: is the namespace there, which tables are in it, who made it
          seen,   \* the version each writer decides on
          state   \* "looking", "deciding", "unsure" of a lost reply, "done", "refused"
vars == <<log, seen, state>>

Init == /\ log = <<[space |-> TRUE, tables |-> {}, by |-> Nobody]>>
        /\ seen = [w \in Writers |-> 0]
        /\ state = [w \in Writers |-> "looking"]

Look(w) == /\ state[w] = "looking"
           /\ seen' = [seen EXCEPT ![w] = Len(log)]
           /\ state' = [state EXCEPT ![w] = "deciding"]
           /\ UNCHANGED log

Allowed(w, v) == v.space /\ (w \in Makers \/ v.tables = {})
After(w, v) == IF w \in Makers THEN [v EXCEPT !.tables = @ \cup {w}, !.by = w]
                               ELSE [v EXCEPT !.space = FALSE, !.by = w]

Refuse(w) == /\ state[w] = "deciding" /\ ~Allowed(w, log[seen[w]])
             /\ state' = [state EXCEPT ![w] = "refused"]
             /\ UNCHANGED <<log, seen>>

\* The broken variant guards its own row only, as a merge-insert does: it commits on top of
\* whatever is the newest by now, though it decided on an older version.
Put(w) == /\ state[w] = "deciding" /\ Allowed(w, log[seen[w]])
          /\ IF Broken \/ Len(log) = seen[w]
             THEN /\ log' = Append(log, After(w, log[Len(log)]))
                  /\ \E told \in {"done", "unsure"} : state' = [state EXCEPT ![w] = told]
             ELSE /\ state' = [state EXCEPT ![w] = "looking"]
                  /\ UNCHANGED log
          /\ UNCHANGED seen

\* A lost reply: the version after the one decided on says whose it is.
Ask(w) == /\ state[w] = "unsure"
          /\ state' = [state EXCEPT ![w] = IF log[seen[w] + 1].by = w THEN "done" ELSE "looking"]
          /\ UNCHANGED <<log, seen>>

Next == \E w \in Writers : Look(w) \/ Refuse(w) \/ Put(w) \/ Ask(w)
Spec == Init /\ [][Next]_vars

Newest == log[Len(log)]
NoOrphan == ~Newest.space => Newest.tables = {}
NothingLost == \A w \in Makers : state[w] = "done" => w \in Newest.tables
MadeOnce == \A w \in Writers : \A i, j \in 1..Len(log) : log[i].by = w /\ log[j].by = w => i = j
Safe == NoOrphan /\ NothingLost /\ MadeOnce
====
