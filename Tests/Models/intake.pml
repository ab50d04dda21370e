/*
 * From the intake to the ready list: `submit`, `lead`, `replay`, `stage`, `admit`, `cancelBatch` and the count of a
 * batch. Each script is one atomic step.
 *
 * One batch of JOBS jobs, pushed one at a time, and two coordinators that die for good, lose the lease, lose replies
 * (the script ran, the caller sees an error), and whose call runs late: after the caller has given it up and leads
 * again. With ROLLBACK, Redis returns once to an earlier state, as after a failover.
 *
 * Rules: a job is in exactly one state; each is counted once; the batch ends once, and only when all of its jobs have.
 * Mutations: NO_LEADER_CHECK, NO_ROUND_CHECK, NO_REPLAY, NO_OWN, BLIND_SUBMIT.
 */

#ifndef JOBS
#define JOBS 3
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifdef NO_LEADER_CHECK
#define EPOCHS (4 * FAULTS + 4)
#else
#define EPOCHS (2 * FAULTS + 2)
#endif
#define CHUNK 2
#define NOLEADER 0
#define COORDINATORS 2

typedef List {
    byte n;
    byte at[JOBS]
}

typedef Redis {
    List intake;
    List stage[EPOCHS];
    bool stages[EPOCHS];
    byte leader, epoch, round;
    byte submitted, own, total, done, cancelled;
    bool closed, isCancelled, finished;
    bool ready[JOBS];
    bool ended[JOBS]
}

/* A call that its sender has given up and that Redis runs later. */
typedef Late {
    bool on;
    byte caller, epoch, round, count;
    List jobs
}

Redis r;
Late late;
byte faults = FAULTS;
bool isDead[COORDINATORS + 1];
bool isSubmitted;
hidden byte i, k, places, first, want;

inline push(list, job) {
    list.at[list.n] = job;
    list.n++
}

inline pushFirst(list, job) {
    k = list.n;
    do
    :: k > 0 -> list.at[k] = list.at[k - 1]; k--
    :: else -> break
    od;
    list.at[0] = job;
    list.n++
}

inline shift(list, count) {
    k = 0;
    do
    :: k + count < list.n -> list.at[k] = list.at[k + count]; k++
    :: else -> break
    od;
    do
    :: k < list.n -> list.at[k] = 0; k++
    :: else -> break
    od;
    list.n = list.n - count
}

inline countIn(list, job) {
    k = 0;
    do
    :: k < list.n -> places = places + (list.at[k] == job); k++
    :: else -> break
    od
}

/* A job is in exactly one state. */
inline check() {
    i = 0;
    do
    :: i < JOBS ->
        places = r.ready[i] + r.ended[i];
        countIn(r.intake, i);
        first = 0;
        do
        :: first < EPOCHS -> countIn(r.stage[first], i); first++
        :: else -> break
        od;
        assert(places == (i < r.submitted));
        i++
    :: else -> break
    od;
    i = 0; k = 0; first = 0; places = 0
}

inline closeIfComplete() {
    if
#ifdef NO_OWN
    :: r.closed && r.done + r.cancelled >= r.total && !r.finished ->
#else
    :: r.closed && r.own >= r.submitted && r.done + r.cancelled >= r.total && !r.finished ->
#endif
        i = 0; places = 0;
        do
        :: i < JOBS -> places = places + r.ended[i]; i++
        :: else -> break
        od;
        assert(places == r.submitted && r.done + r.cancelled == places);
        i = 0; places = 0;
        r.finished = true
    :: else
    fi
}

#ifdef NO_LEADER_CHECK
#define LEADS(name, number) true
#else
#define LEADS(name, number) (r.leader == name && r.epoch == number)
#endif
#ifdef NO_ROUND_CHECK
#define KNOWS(number) true
#else
#define KNOWS(number) (r.round == number)
#endif

inline admit(sender, ofEpoch, ofRound, them, number) {
    if
    :: LEADS(sender, ofEpoch) && KNOWS(ofRound) ->
        r.round++;
        want = (number < r.stage[ofEpoch].n -> number : r.stage[ofEpoch].n);
        r.total = r.total + want;
        r.own = r.own + want;
        i = 0;
        do
        :: i < want ->
            assert(!r.finished);
            if
            :: r.isCancelled -> r.ended[them.at[i]] = true; r.cancelled++
            :: else -> r.ready[them.at[i]] = true
            fi;
            i++
        :: else -> break
        od;
        shift(r.stage[ofEpoch], want);
        closeIfComplete();
        ok = true
    :: else -> ok = false
    fi;
    want = 0;
    check()
}

proctype Submitter() {
    byte next;
    bit isUrgent;
    do
    :: next < JOBS ->
        if
        :: isUrgent = 0
        :: isUrgent = 1
        fi;
        d_step {
            if
            :: r.isCancelled
#ifdef BLIND_SUBMIT
            :: !r.isCancelled && r.submitted < JOBS ->
#else
            :: !r.isCancelled && next == r.submitted ->
#endif
                if
                :: isUrgent -> pushFirst(r.intake, next)
                :: else -> push(r.intake, next)
                fi;
                r.submitted++;
                if
                :: r.submitted == JOBS -> r.closed = true; closeIfComplete()
                :: else
                fi
            :: else  /* Repeated: it is there already. */
            fi;
            check()
        }
        if
        :: next++
        :: d_step { faults > 0; faults-- }  /* The reply is lost: the call is repeated. */
        fi
    :: else -> break
    od;
    isSubmitted = true
}

proctype Operator() {
    if
    :: d_step {
            r.submitted > 0 && !r.finished;
            r.cancelled = r.cancelled + r.intake.n;
            r.own = r.own + r.intake.n;
            r.total = r.total + r.intake.n;
            i = 0;
            do
            :: i < r.intake.n -> r.ended[r.intake.at[i]] = true; i++
            :: else -> break
            od;
            want = r.intake.n;
            shift(r.intake, want);
            want = 0;
            r.isCancelled = true;
            r.closed = true;
            closeIfComplete();
            check()
        }
    :: true
    fi
}

inline settle(job) {
    r.ready[job];
    r.ready[job] = false;
    r.ended[job] = true;
    r.done++;
    closeIfComplete();
    check()
}

/* Stands for all workers; leases.pml has their part. */
active proctype Worker() {
end:
    do
    :: d_step { settle(0) }
    :: d_step { settle(1) }
#if JOBS > 2
    :: d_step { settle(2) }
#endif
    od
}

proctype Coordinator(byte me) {
    List mine;
    byte epoch, round, older, count;
    bool ok;

start: skip;
    d_step {
        mine.n = 0;
        count = 0;
        do
        :: count < JOBS -> mine.at[count] = 0; count++
        :: else -> break
        od;
        epoch = 0; round = 0; older = 0; count = 0; ok = false
    }
end:
    d_step {
        r.leader == NOLEADER || r.leader == me;
        if
        :: r.leader == NOLEADER -> r.leader = me; r.epoch++; assert(r.epoch < EPOCHS)
        :: else
        fi;
        epoch = r.epoch
    }
#ifndef NO_REPLAY
    /* One call for each older stage that has jobs. */
    do
    :: atomic {
            do
            :: older < epoch && !r.stages[older] -> older++
            :: else -> break
            od;
            if
            :: older == epoch -> break
            :: else
            fi;
            d_step {
                ok = LEADS(me, epoch);
                do
                :: ok && r.stage[older].n > 0 ->
                    push(r.stage[epoch], r.stage[older].at[0]);
                    shift(r.stage[older], 1);
                    r.stages[epoch] = true
                :: else -> break
                od;
                if
                :: ok -> r.stages[older] = false
                :: else
                fi;
                check()
            }
            if
            :: !ok -> goto start
            :: else
            fi
        }
    od;
    older = 0;
#endif
    do
    :: mine.n == 0 ->
        /* Waits until jobs were pushed, or another process leads. */
endwait:
        r.leader != me || r.epoch != epoch || r.intake.n > 0 || r.stage[epoch].n > 0;
        round = r.round;
stage: skip;
        d_step {
            ok = LEADS(me, epoch) && KNOWS(round);
            if
            :: ok ->
                r.round++;
                round++;
                want = CHUNK - (r.stage[epoch].n > mine.n -> r.stage[epoch].n - mine.n : 0);
                if
                :: want > CHUNK -> want = 0
                :: else
                fi;
                do
                :: want > 0 && r.intake.n > 0 ->
                    push(r.stage[epoch], r.intake.at[0]);
                    shift(r.intake, 1);
                    want--
                :: else -> break
                od;
                first = mine.n;
                do
                :: mine.n < r.stage[epoch].n && mine.n < first + CHUNK ->
                    push(mine, r.stage[epoch].at[mine.n]);
                    r.stages[epoch] = true
                :: else -> break
                od;
                first = 0; want = 0
            :: else
            fi;
            check()
        }
        if
        :: !ok || mine.n == 0 && (r.leader != me || r.epoch != epoch) -> goto failed  /* Or the next renewal fails. */
        :: ok && (mine.n > 0 || r.leader == me && r.epoch == epoch)
        :: d_step { ok && faults > 0; faults-- } goto failed  /* The reply is lost. */
        fi
    :: mine.n > 0 ->
        /* Half of the jobs, or all of them. */
        if
        :: count = mine.n
        :: mine.n > 1 -> count = mine.n - 1
        fi;
        if
        :: d_step { admit(me, epoch, round, mine, count); round++; shift(mine, count) }
            if
            :: !ok -> goto failed
            :: ok
            :: d_step { ok && faults > 0; faults-- } goto failed
            fi
        :: d_step {
                faults > 0 && !late.on;
                faults--;
                late.on = true;
                late.caller = me; late.epoch = epoch; late.round = round; late.count = count;
                i = 0;
                do
                :: i < count -> push(late.jobs, mine.at[i]); i++
                :: else -> break
                od;
                i = 0
            }
            goto failed
        fi;
        count = 0;
        if
        :: mine.n > 0 && mine.n < JOBS -> goto stage
        :: true
        fi
    :: d_step { faults > 0 && !isDead[1] && !isDead[2]; faults--; isDead[me] = true }
        goto dead
    od;
failed: skip;
    if
    :: d_step {
            if
            :: r.leader == me -> r.leader = NOLEADER
            :: else
            fi
        }
    :: d_step { faults > 0; faults-- }  /* `resign` did not reach Redis either. */
    fi;
    goto start;
dead:
    skip
}

inline forget() {
    late.on = false; late.caller = 0; late.epoch = 0; late.round = 0; late.count = 0;
    shift(late.jobs, late.jobs.n)
}

active proctype Time() {
    bool ok;
end:
    do
    :: d_step { r.leader != NOLEADER && isDead[r.leader]; r.leader = NOLEADER }
    :: d_step { r.leader != NOLEADER && !isDead[r.leader] && faults > 0; faults--; r.leader = NOLEADER }
    :: d_step {
            late.on;
            admit(late.caller, late.epoch, late.round, late.jobs, late.count);
            forget();
            ok = false
        }
    od
}

#ifdef ROLLBACK
Redis saved;
bool isSaved;

inline copyList(to, from) {
    to.n = from.n;
    k = 0;
    do
    :: k < JOBS -> to.at[k] = from.at[k]; k++
    :: else -> break
    od;
    k = 0
}

inline copy(to, from) {
    copyList(to.intake, from.intake);
    i = 0;
    do
    :: i < EPOCHS ->
        copyList(to.stage[i], from.stage[i]);
        to.stages[i] = from.stages[i];
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < JOBS -> to.ready[i] = from.ready[i]; to.ended[i] = from.ended[i]; i++
    :: else -> break
    od;
    i = 0;
    to.leader = from.leader; to.epoch = from.epoch; to.round = from.round;
    to.submitted = from.submitted; to.own = from.own; to.total = from.total;
    to.done = from.done; to.cancelled = from.cancelled;
    to.closed = from.closed; to.isCancelled = from.isCancelled; to.finished = from.finished
}

/*
 * A replica that lacks the last writes becomes the master: once, at any time after the batch was pushed. A late call
 * does not reach it: the call's connection was to the old master.
 */
active proctype Failover() {
end:
    d_step { isSubmitted && r.stage[0].n == 0; copy(saved, r); isSaved = true }
endsaved:
    d_step { isSaved; copy(r, saved); forget(); check() }
}
#endif

init {
    atomic {
        run Submitter();
        run Operator();
        run Coordinator(1);
        run Coordinator(2)
    }
}

ltl ends { <>(isSubmitted && r.finished) }
