/*
 * From the ready list to a place: `claim`, `tick`, `hold`, `retry`, `acquirePermit`, `releasePermit`, wake tokens and
 * the leader's sweep. Each script is one atomic step; waking-scripts.pml has the longer ones.
 *
 * A worker with one place and one with two. Jobs 0 and 1 have a host with limits, job 2 one without. Time is a clock
 * that advances only if no process can do anything else, so that the rules about time can be checked exactly. In each
 * unit of time the leader sweeps once, and there may be one event: a worker or the leader dies (FAULTS times), or a
 * worker begins to drain (DRAINS times). The replies to a claim and to a BLPOP may be lost (FAULTS times). Without a
 * leader, other processes sweep after less than an idle interval. The jobs are admitted at any time, also while a host
 * is held, and some with a `notBefore`; with EARLY, all of them at the beginning. Left out: priorities.
 *
 * Rules: while a place is free, no job is ready and none is due when the clock advances, or for one idle interval if a
 * process died or lost a reply; no host gets more requests than CONCURRENCY at a time, one in RATE units of time, none
 * while its circuit is open, one after; a held job uses no attempt; every job ends.
 * Mutations: NO_TURN, NO_TICK, NO_TOKEN, NO_TOKEN_OF_RELEASE, NO_FALLBACK, NO_CHAIN, NO_MORE, NO_PASSING, NO_FAREWELL,
 * HOLD_COUNTS, NO_LISTENING, NO_CONCURRENCY, NO_RATE, NO_PROBE.
 */

#define JOBS 3
#define HOSTS 2
#define WORKERS 2
#ifndef CONCURRENCY
#define CONCURRENCY 1
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef DRAINS
#define DRAINS 0
#endif
#define ATTEMPTS 2
#define IDLE 3
#define LEASE 2
#define LEADERLESS 2    /* After the death of a leader, until another process sweeps. */
#define OPEN 2
#define PATIENCE 2      /* Openings of the circuit after which a host is given up. */
#define TOKENS 1        /* LTRIM: there may be fewer tokens than ready jobs. */
#define BOUND 1         /* Jobs that one script moves: its work is bounded. */
#define NEVER 15
#define NOWORKER 2

#define HOST(j) (j / 2)
#define PLACES(w) (w + 1)

mtype = {NEW, READY, HELD, DELAYED, CLAIMED, REFUSED, UNREACHABLE, FETCHING, ANSWERED, FAILED, ENDED};

mtype state[JOBS] = NEW;
byte owner[JOBS] = NOWORKER;
bool turn[JOBS];          /* Made ready by the turn of its host: `claim` does not hold it again. */
byte timer[JOBS];         /* Until it is due, its request is done or its lease has run out. */
byte used[JOBS];          /* Attempts that count. */
byte failures[JOBS];      /* Requests and leases that failed, which the rule about attempts compares. */
bool isLost[JOBS];        /* Claimed, but no living worker knows of it. */

bool isHeld[HOSTS];
byte next[HOSTS];         /* Until the next turn. */
byte orphans[HOSTS];      /* Permits of a worker that died. */
byte orphanTime[HOSTS];
byte openings[HOSTS];
byte open[HOSTS];
byte rate[HOSTS];
byte since[HOSTS] = 3;    /* Since the last request. */

byte tokens;

bool isAlive[WORKERS] = true;
bool isDraining[WORKERS];
bool isAsleep[WORKERS];
bool listens[WORKERS];    /* BLPOP is in flight, perhaps longer than the worker sleeps. */
byte sleep[WORKERS];
bool isBroken[WORKERS];   /* It waits for the reply to a BLPOP that never comes, until its sleep is over. */
bool isDeaf[WORKERS];     /* Its last claim has left only jobs that run or have a token: only a token wakes it. */

byte faults = FAULTS;
byte drains = DRAINS;
byte leaving = NOWORKER;    /* The worker that drains in this unit of time. */
bool wasHurt;
byte late;
bool sweeps;              /* The leader has yet to sweep in this unit of time. */
byte leaderless;          /* Until another process sweeps. */
byte doomed = NOWORKER;     /* The worker that dies in this unit of time. */
hidden byte i, made, moved;

#define TAKEN(w) ((owner[0] == w && !isLost[0]) + (owner[1] == w && !isLost[1]) + (owner[2] == w && !isLost[2]))
#define FREE(w) (isAlive[w] && !isDraining[w] && TAKEN(w) < PLACES(w))
#define ALLWORK (isAlive[0] && isAlive[1] && !isDraining[0] && !isDraining[1])
#define WAITS(j) (isHeld[HOST(j)] && !turn[j])
#define ISREADY(j) (state[j] == READY && !WAITS(j))
#define ISDUE(j) (state[j] == DELAYED && timer[j] == 0 || state[j] == HELD && next[HOST(j)] == 0)
#define ANYREADY (ISREADY(0) || ISREADY(1) || ISREADY(2))
#define ANYDUE (ISDUE(0) || ISDUE(1) || ISDUE(2))
#define HASHELD(h) (state[0] == HELD && HOST(0) == h || state[1] == HELD && HOST(1) == h || \
    state[2] == HELD && HOST(2) == h)
#define FETCHES(h) ((state[0] == FETCHING && !isLost[0] && HOST(0) == h) + \
    (state[1] == FETCHING && !isLost[1] && HOST(1) == h) + (state[2] == FETCHING && !isLost[2] && HOST(2) == h))
#define WAITSANYWHERE(j) (state[j] == READY || state[j] == HELD || state[j] == DELAYED)
#define ISEMPTY (!WAITSANYWHERE(0) && !WAITSANYWHERE(1) && !WAITSANYWHERE(2))
#define WAITSUNREADY(j) (state[j] == HELD || state[j] == DELAYED || state[j] == READY && WAITS(j))
/* The next claim has a token, and nothing but ready jobs waits. */
#define ISANNOUNCED (tokens > 0 && !ISEMPTY && !WAITSUNREADY(0) && !WAITSUNREADY(1) && !WAITSUNREADY(2))
#define ALLENDED (state[0] == ENDED && state[1] == ENDED && state[2] == ENDED)

#include "waking-scripts.pml"

inline rouse(w) {
    isAsleep[w] = false;
    isDeaf[w] = false;
    isBroken[w] = false;
    sleep[w] = 0
}

/* The end of a job wakes its worker, whose BLPOP goes on. A deaf worker waits for a token first. */
inline rouseByEnd(w) {
    if
    :: isDeaf[w] && !listens[w] && !isBroken[w] ->
#ifndef NO_LISTENING
        listens[w] = true;
#endif
        sleep[w] = IDLE
    :: isDeaf[w] && (listens[w] || isBroken[w])
    :: !isDeaf[w] -> rouse(w)
    fi
}

inline settle(w, j) {
    state[j] = ENDED;
    owner[j] = NOWORKER;
    timer[j] = 0;
    used[j] = 0;
    failures[j] = 0;
    rouseByEnd(w)
}

/* Jobs of a worker that no longer knows of them, from a state on; their permits expire. */
inline lose(w, least) {
    i = 0;
    do
    :: i < JOBS ->
        if
        :: owner[i] == w && !isLost[i] && (least == FETCHING || state[i] == CLAIMED) ->
            if
            :: state[i] == FETCHING -> orphans[HOST(i)]++; orphanTime[HOST(i)] = 2
            :: else
            fi;
            if
            :: state[i] == FAILED -> failures[i]--
            :: else
            fi;
            isLost[i] = true;
            state[i] = CLAIMED;
            timer[i] = LEASE
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

#define MAYSTEP(w, j) (owner[j] == w && isAlive[w] && !isLost[j] && (state[j] != FETCHING || timer[j] == 0))

/* One step of a claimed job. */
inline step(w, j) {
    if
    :: state[j] == CLAIMED ->
        d_step { acquire(w, j, HOST(j)) }
        if
        :: state[j] == FETCHING -> timer[j] = 0
        :: state[j] == FETCHING -> timer[j] = 2
        :: state[j] != FETCHING
        fi
    :: state[j] == REFUSED -> d_step { hold(j, timer[j]); rouseByEnd(w) }
    :: state[j] == UNREACHABLE || state[j] == ANSWERED -> d_step { settle(w, j) }
    :: state[j] == FETCHING ->
        d_step {
            state[j] = ANSWERED;
            openings[HOST(j)] = 0;
            open[HOST(j)] = 0;
            advance(HOST(j))
        }
#ifdef CIRCUIT
    :: state[j] == FETCHING && HOST(j) == 0 ->
        d_step {
            state[j] = FAILED;
            failures[j]++;
            if
            :: open[0] == 0 ->
                open[0] = OPEN;
                if
                :: openings[0] < PATIENCE -> openings[0]++
                :: else
                fi
            :: else
            fi
        }
#endif
    :: state[j] == FAILED ->
        d_step {
            if
            :: used[j] >= ATTEMPTS -> settle(w, j)
            :: else ->
                state[j] = DELAYED;
                owner[j] = NOWORKER;
                timer[j] = 1;
                rouseByEnd(w)
            fi
        }
    fi
}

proctype Worker(byte me) {
    byte got;
    bool isReversed, isLeft;
end:
    do
    :: atomic {
            FREE(me) && !isAsleep[me];
            /* The order of the ready list is any order of admission. */
            if
            :: isReversed = false
            :: isReversed = true
            fi;
            d_step {
                tick();
                if
                :: isReversed -> claimOne(me, 2); claimOne(me, 1); claimOne(me, 0)
                :: else -> claimOne(me, 0); claimOne(me, 1); claimOne(me, 2)
                fi;
                finishClaim(me)
            }
            if
#ifdef NO_MORE
            :: got == 0 -> isAsleep[me] = true; listens[me] = true; isDeaf[me] = ISEMPTY
#else
            :: got == 0 && !isLeft -> isAsleep[me] = true; listens[me] = true; isDeaf[me] = ISEMPTY
            :: got == 0 && isLeft  /* `claim` says so, and the worker asks again at once. */
#endif
            :: got > 0 ->
                if
                :: ISEMPTY -> isAsleep[me] = true; isDeaf[me] = true; listens[me] = listens[me] || FREE(me)
                /* A worker of a large fleet may wait for the token then. */
                :: ISANNOUNCED && !FREE(me) -> isAsleep[me] = true; isDeaf[me] = true
                :: !ISEMPTY
                fi
            :: got > 0 && faults > 0 -> d_step { faults--; wasHurt = true; lose(me, CLAIMED) }
            fi;
            got = 0; isReversed = false; isLeft = false
        }
    :: d_step {
            tokens > 0 && listens[me] && isAlive[me];
            listens[me] = false;
            if
            :: FREE(me) -> tokens--; rouse(me)
            :: else ->
#ifdef NO_PASSING
                tokens--;
#endif
                skip
            fi
        }
    /* The connection breaks, and with it the token is lost. */
    :: d_step {
            tokens > 0 && listens[me] && isAlive[me] && faults > 0;
            tokens--;
            listens[me] = false;
            isBroken[me] = true;
            faults--;
            wasHurt = true
        }
#ifndef NO_FALLBACK
    :: d_step { isAsleep[me] && isAlive[me] && sleep[me] == 0; rouse(me) }
#endif
    :: atomic { MAYSTEP(me, 0); step(me, 0) }
    :: atomic { MAYSTEP(me, 1); step(me, 1) }
    :: atomic { MAYSTEP(me, 2); step(me, 2) }
    od
}

inline admit(j) {
    if
    :: d_step {
            if
            :: isHeld[HOST(j)] -> hold(j, NEVER)
            :: else -> state[j] = READY; wake()
            fi
        }
    :: d_step { state[j] = DELAYED; timer[j] = 1 }
    :: d_step { state[j] = DELAYED; timer[j] = 3 }
    fi
}

inline sweep(j) {
    isLost[j] = false;
    state[j] = READY;
    owner[j] = NOWORKER;
    failures[j]++;
    wake()
}

/* Coordinators, sweeps and accidents. */
proctype Others() {
end:
    do
    :: atomic { state[0] == NEW && timer[0] == 0; admit(0) }
    :: atomic { state[1] == NEW && timer[1] == 0; admit(1) }
    :: atomic { state[2] == NEW && timer[2] == 0; admit(2) }
    :: d_step { isLost[0] && timer[0] == 0; sweep(0) }
    :: d_step { isLost[1] && timer[1] == 0; sweep(1) }
    :: d_step { isLost[2] && timer[2] == 0; sweep(2) }
    :: d_step {
            sweeps;
            sweeps = false;
#ifndef NO_TICK
            tick();
#endif
            if
#ifndef NO_TOKEN
            :: made > 0 -> wake()
#endif
            :: else
            fi;
            made = 0
        }
    :: d_step {
            leaving != NOWORKER;
            isDraining[leaving] = true;
            isAsleep[leaving] = false;
            listens[leaving] = false;
            sleep[leaving] = 0;
#ifndef NO_FAREWELL
            wake();
#endif
            leaving = NOWORKER
        }
    :: d_step {
            doomed != NOWORKER;
            lose(doomed, FETCHING);
            isAlive[doomed] = false;
            isAsleep[doomed] = false;
            listens[doomed] = false;
            sleep[doomed] = 0;
            doomed = NOWORKER;
            wasHurt = true
        }
    od
}

#define LESS(n) (n > 0 -> n - 1 : 0)

proctype Clock() {
end:
    do
    :: atomic {
            timeout && !ALLENDED;
            d_step {
                if
                :: (ANYREADY || ANYDUE) && (FREE(0) || FREE(1)) ->
                    late++;
                    assert(late <= (wasHurt -> IDLE : 0))
                :: else -> late = 0
                fi;
                i = 0;
                do
                :: i < JOBS ->
                    if
                    :: state[i] == READY || state[i] == HELD || state[i] == DELAYED -> assert(used[i] == failures[i])
                    :: else
                    fi;
                    timer[i] = LESS(timer[i]);
                    i++
                :: else -> break
                od;
                i = 0;
                do
                :: i < HOSTS ->
                    next[i] = LESS(next[i]);
                    open[i] = LESS(open[i]);
                    rate[i] = LESS(rate[i]);
                    orphanTime[i] = LESS(orphanTime[i]);
                    if
                    :: orphanTime[i] == 0 -> orphans[i] = 0
                    :: else
                    fi;
                    if
                    :: since[i] < 3 -> since[i]++
                    :: else
                    fi;
                    i++
                :: else -> break
                od;
                i = 0;
                do
                :: i < WORKERS -> sleep[i] = LESS(sleep[i]); i++
                :: else -> break
                od;
                i = 0;
                leaderless = LESS(leaderless);
                sweeps = leaderless == 0
            }
            if
            :: skip
            :: faults > 0 && sweeps -> faults--; wasHurt = true; leaderless = LEADERLESS; sweeps = false
            :: faults > 0 && ALLWORK -> faults--; doomed = 0
            :: faults > 0 && ALLWORK -> faults--; doomed = 1
            :: drains > 0 && ALLWORK -> drains--; leaving = 0
            :: drains > 0 && ALLWORK -> drains--; leaving = 1
            fi
        }
    od
}

init {
    atomic {
#ifndef EARLY
        if
        :: timer[0] = 0
        :: timer[0] = 1
        fi;
        if
        :: timer[1] = 0
        :: timer[1] = 1
        :: timer[1] = 2
        fi;
        if
        :: timer[2] = 0
        :: timer[2] = 1
        :: timer[2] = 3
        fi;
#endif
        run Worker(0);
        run Worker(1);
        run Others();
        run Clock()
    }
}

ltl ends { <>(ALLENDED) }
