/*
 * From a place to the end of a job: `claim`, `settle`, `retry`, `hold`, `release`, `sweep`, `tick` and the cancellation
 * of a batch. Each script is one atomic step.
 *
 * One batch of JOBS jobs, a worker with one place and one with two. A worker dies with all of its jobs, or pauses for
 * longer than its leases and goes on; a reply to a script is lost, and the call is repeated; or the worker gives a call
 * up, and it runs later. Any job may be refused by its host. With DEAD_HOST, no turn of the host ever comes.
 *
 * Rules: a job is in exactly one state; it is counted once; only its last attempt may write; a held job occupies no
 * place and uses no attempt; every job ends, at a dead host if its batch is cancelled.
 * Mutations: NO_FENCE, NO_LEASE_CHECK, NO_GONE_CHECK, HOLD_COUNTS, KEEP_LEASE, NO_SWEEP, HOLD_CANCELLED, NO_PROMOTION.
 */

#ifndef JOBS
#define JOBS 3
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef REFUSALS
#define REFUSALS 2
#endif
#define ATTEMPTS 2
#define PLACES 3
#define LATE PLACES     /* The place of a call that runs after its worker has given it up. */
#define NONE JOBS
#define NOWORKER 2
#define WORKER(p) (p > 0)

mtype = {FREE, RUNNING, DONE, FAILED, CANCELLED, RETRIED, REFUSED, RELEASED};

/* Redis. */
bool isAlive[JOBS] = true;
bool ready[JOBS] = true;
bool held[JOBS];
bool delayed[JOBS];
bool leased[JOBS];
byte owner[JOBS] = NOWORKER;
byte used[JOBS];            /* Attempts that count. */
byte count;                 /* What the batch counts. */
bool isCancelled;

/* The places of the workers. */
mtype state[PLACES + 1] = FREE;
byte job[PLACES + 1] = NONE;
bool isLast[PLACES + 1];    /* It has the job's last attempt number. */
bool isOverdue[PLACES + 1]; /* Its lease was swept while it went on. */
byte lateOwner;

byte ends[JOBS];
byte failures[JOBS];
byte faults = FAULTS;
byte refusals = REFUSALS;
hidden byte i, n;

#define ALLENDED (count == JOBS)
#define KNOWN(j) (job[0] == j && isLast[0] || job[1] == j && isLast[1] || job[2] == j && isLast[2])

inline check() {
    i = 0;
    do
    :: i < JOBS ->
        assert(ready[i] + held[i] + delayed[i] + leased[i] == isAlive[i]);
        assert(isAlive[i] + ends[i] == 1);
        if
        :: ready[i] || held[i] || delayed[i] ->
            assert(used[i] == failures[i]);
            assert(!(job[0] == i && isLast[0] && !isOverdue[0] && state[0] == RUNNING));
            assert(!(job[1] == i && isLast[1] && !isOverdue[1] && state[1] == RUNNING));
            assert(!(job[2] == i && isLast[2] && !isOverdue[2] && state[2] == RUNNING))
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline vacate(p) {
    state[p] = FREE;
    job[p] = NONE;
    isLast[p] = false;
    isOverdue[p] = false
}

inline claim(p, j) {
    ready[j] = false;
    leased[j] = true;
    owner[j] = WORKER(p);
    used[j]++;
    n = 0;
    do
    :: n <= PLACES ->
        if
        :: job[n] == j -> isLast[n] = false; isOverdue[n] = false
        :: else
        fi;
        n++
    :: else -> break
    od;
    n = 0;
    job[p] = j;
    isLast[p] = true;
    state[p] = RUNNING;
    check()
}

#ifdef NO_FENCE
#define ISFENCED(p, w, j) false
#else
#define ISFENCED(p, w, j) (!isLast[p] || owner[j] != w)
#endif
#ifdef NO_LEASE_CHECK
#define HASLEASE(j) true
#define SWEPT owner[j]
#else
#define HASLEASE(j) leased[j]
#define SWEPT NOWORKER
#endif
#ifdef NO_GONE_CHECK
#define MAYWRITE(p, w, j) (!isAlive[j] || !ISFENCED(p, w, j) && HASLEASE(j))
#else
#define MAYWRITE(p, w, j) (isAlive[j] && !ISFENCED(p, w, j) && HASLEASE(j))
#endif

/* `settle`, `retry`, `hold` or `release` of the job at a place. */
inline write(p, w, j) {
    if
    :: MAYWRITE(p, w, j) ->
        assert(!isAlive[j] || isLast[p]);
#ifdef KEEP_LEASE
        leased[j] = leased[j] && state[p] == REFUSED;
#else
        leased[j] = false;
#endif
        owner[j] = NOWORKER;
        if
        :: state[p] == DONE || state[p] == FAILED || state[p] == CANCELLED ->
            isAlive[j] = false;
            ends[j]++;
            count++;
            used[j] = 0;
            failures[j] = 0
        :: state[p] == RETRIED ->
            failures[j]++;
            if
            :: isCancelled -> ready[j] = true
            :: else -> delayed[j] = true
            fi
        :: state[p] == REFUSED ->
#ifndef HOLD_COUNTS
            used[j]--;
#endif
            if
#ifndef HOLD_CANCELLED
            :: isCancelled -> ready[j] = true
#endif
            :: else -> held[j] = true
            fi
        :: state[p] == RELEASED ->
            used[j]--;
            ready[j] = true
        fi
    :: else
    fi;
    check()
}

inline sweep(j) {
    leased[j] = false;
    ready[j] = true;
    owner[j] = SWEPT;
    failures[j]++;
    n = 0;
    do
    :: n < PLACES ->
        if
        :: job[n] == j && isLast[n] -> isOverdue[n] = true
        :: else
        fi;
        n++
    :: else -> break
    od;
    n = 0;
    check()
}

/* A worker fills its first free place. */
#define ISNEXT(p) (state[p] == FREE && (p != 2 || state[1] != FREE))

proctype Place(byte me) {
end:
    do
    :: d_step { ISNEXT(me) && ready[0]; claim(me, 0) }
    :: d_step { ISNEXT(me) && ready[1]; claim(me, 1) }
#if JOBS > 2
    :: d_step { ISNEXT(me) && ready[2]; claim(me, 2) }
#endif
    :: d_step { state[me] == RUNNING && isCancelled; state[me] = CANCELLED }
    :: d_step { state[me] == RUNNING && !isCancelled; state[me] = DONE }
    :: d_step {
            state[me] == RUNNING && !isCancelled;
            if
            :: used[job[me]] < ATTEMPTS -> state[me] = RETRIED
            :: else -> state[me] = FAILED
            fi
        }
    :: d_step { state[me] == RUNNING && refusals > 0; refusals--; state[me] = REFUSED }
    :: d_step { state[me] == RUNNING && refusals > 0; refusals--; state[me] = RELEASED }
    :: d_step { state[me] != RUNNING && state[me] != FREE; write(me, WORKER(me), job[me]); vacate(me) }
    /* The reply is lost: to a claim, or to another script, which is repeated. */
    :: d_step { state[me] == RUNNING && faults > 0; faults--; vacate(me) }
    :: d_step {
            state[me] != RUNNING && state[me] != FREE && faults > 0;
            faults--;
            write(me, WORKER(me), job[me])
        }
    /* The worker gives the call up. */
    :: d_step {
            state[me] != RUNNING && state[me] != FREE && faults > 0 && state[LATE] == FREE;
            faults--;
            state[LATE] = state[me];
            job[LATE] = job[me];
            isLast[LATE] = isLast[me];
            lateOwner = WORKER(me);
            vacate(me)
        }
    od
}

inline tick(j) {
    ready[j] = true;
    held[j] = false;
    delayed[j] = false;
    check()
}

#ifdef DEAD_HOST
#define COMES(j) delayed[j]
#else
#define COMES(j) (held[j] || delayed[j])
#endif
#ifdef NO_SWEEP
#define ISLOST(j) false
#else
#define ISLOST(j) (leased[j] && !KNOWN(j))
#endif

/* Due jobs, sweeps and accidents. */
proctype Time() {
end:
    do
    :: d_step { COMES(0); tick(0) }
    :: d_step { COMES(1); tick(1) }
    :: d_step { ISLOST(0); sweep(0) }
    :: d_step { ISLOST(1); sweep(1) }
    :: d_step { leased[0] && faults > 0; faults--; sweep(0) }
    :: d_step { leased[1] && faults > 0; faults--; sweep(1) }
#if JOBS > 2
    :: d_step { COMES(2); tick(2) }
    :: d_step { ISLOST(2); sweep(2) }
    :: d_step { leased[2] && faults > 0; faults--; sweep(2) }
#endif
    :: d_step { faults > 0; faults--; vacate(0) }
    :: d_step { faults > 0; faults--; vacate(1); vacate(2) }
    :: d_step {
            state[LATE] != FREE;
            write(LATE, lateOwner, job[LATE]);
            vacate(LATE);
            lateOwner = 0
        }
    od
}

/* Cancels the batch at any time, or never. */
proctype Operator() {
    byte j;
    if
    :: isCancelled = true
    :: true -> goto finished
    fi;
#ifndef NO_PROMOTION
    do
    :: j < JOBS ->
        d_step {
            if
            :: held[j] || delayed[j] -> tick(j)
            :: else
            fi;
            j++
        }
    :: else -> break
    od;
#endif
finished:
    skip
}

init {
    atomic {
        run Place(0);
        run Place(1);
        run Place(2);
        run Time();
        run Operator()
    }
}

#ifdef DEAD_HOST
ltl ends { [](isCancelled -> <>ALLENDED) }
#else
ltl ends { <>ALLENDED }
#endif
