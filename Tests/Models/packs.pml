/*
 * A pack from its place to the end of each source: `claim`, `settlePack`, `sweep` and `tick`. Each script is one atomic
 * step.
 *
 * One pack of SOURCES sources, 2 or 3, and two workers. A worker settles the sources that it has decided, as often as
 * it likes, and keeps the rest, gives it back, or leaves it to the host. It dies with the pack, or pauses for longer
 * than its lease and goes on; a reply to a script is lost, and the call is repeated; or a call runs later, once more or
 * instead. A source that is split off is a job of its own: the model `leases` has its life.
 *
 * Rules: a source is in the pack, a job of its own, or ended; it ends once; only a pack that runs is settled; every
 * source ends.
 * Mutations: NO_COUNT, NO_FENCE, NO_LEASE_CHECK, NO_REST, NO_SWEEP.
 */

#ifndef SOURCES
#define SOURCES 3
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef REFUSALS
#define REFUSALS 1
#endif
#define ALL ((1 << SOURCES) - 1)
#define COUNT(set) ((set & 1) + (set >> 1 & 1) + (set >> 2 & 1))
#define LATE 2          /* The place of a call that runs later. */
#define NOBODY 2

mtype = {READY, HELD, LEASED, GONE, NOCALL, KEEP, GIVE, HOLD, END};

/* Redis. */
mtype place = READY;
byte pack = ALL;        /* Sources in the pack. */
byte single;            /* Sources that are jobs of their own. */
byte attempt;
byte owner = NOBODY;
bool isStalled;         /* Its last worker has died. */
byte ends[SOURCES];

/* The workers, and the late call. */
bool has[2];
bool mustSplit[2];
byte mine[3];           /* Sources of the pack, as the worker knows it. */
byte ended[3];          /* Of these, the ones that have ended, */
byte split[3];          /* and those that are to be split off; neither is settled. */
byte number[3];         /* The worker's attempt. */
mtype call[3] = NOCALL;
byte lateOwner;

byte faults = FAULTS;
byte refusals = REFUSALS;
bool isApplied;
hidden byte i;

#define REST(p) (mine[p] & ~(ended[p] | split[p]))
#define ALLENDED (place == GONE && single == 0)

inline check() {
    assert((place == GONE) == (pack == 0));
    assert((pack & single) == 0);
    i = 0;
    do
    :: i < SOURCES ->
        assert((pack >> i & 1) + (single >> i & 1) + ends[i] == 1);
        i++
    :: else -> break
    od;
    i = 0
}

inline vacate(p) {
    mine[p] = 0;
    ended[p] = 0;
    split[p] = 0;
    number[p] = 0;
    call[p] = NOCALL
}

inline leave(p) {
    has[p] = false;
    mustSplit[p] = false;
    vacate(p)
}

#ifdef NO_FENCE
#define ISFENCED(p, w) false
#else
#define ISFENCED(p, w) (attempt != number[p] || owner != w)
#endif
#ifdef NO_LEASE_CHECK
#define HASLEASE true
#define SWEPT owner
#else
#define HASLEASE (place == LEASED)
#define SWEPT NOBODY
#endif
#ifdef NO_COUNT
#define ISNEWS(p) true
#else
#define ISNEWS(p) (COUNT(pack) == COUNT(mine[p]))
#endif
#define ISKEPT(p) (call[p] == KEEP && COUNT(pack) == COUNT(REST(p)))

/* The call at a place. The script writes the rest as the worker knows it. */
inline settlePack(p, w) {
    isApplied = false;
    if
    :: place == GONE || ISFENCED(p, w) || !HASLEASE
    :: else ->
        if
        :: !ISNEWS(p) -> isApplied = ISKEPT(p)
        :: else ->
            assert(place == LEASED);
            isApplied = true;
            i = 0;
            do
            :: i < SOURCES ->
                ends[i] = ends[i] + (ended[p] >> i & 1);
                i++
            :: else -> break
            od;
            single = single | split[p];
#ifdef NO_REST
            pack = (call[p] == KEEP -> REST(p) : 0);
#else
            pack = REST(p);
#endif
            if
            :: call[p] == KEEP
            :: pack == 0 && call[p] != KEEP -> place = GONE; owner = NOBODY
            :: pack != 0 && call[p] == GIVE -> place = READY; owner = NOBODY; isStalled = false
            :: pack != 0 && call[p] == HOLD -> place = HELD; owner = NOBODY; isStalled = false
            fi
        fi
    fi;
    check()
}

inline claim(w) {
    place = LEASED;
    attempt++;
    owner = w;
    has[w] = true;
    mustSplit[w] = isStalled;
    mine[w] = pack;
    number[w] = attempt;
    check()
}

inline sweep() {
    place = READY;
    owner = SWEPT;
    isStalled = true;
    check()
}

#define UNDECIDED(w, s) (has[w] && call[w] == NOCALL && !mustSplit[w] && (REST(w) >> s & 1))

proctype Worker(byte me) {
end:
    do
    :: d_step { place == READY && !has[me]; claim(me) }
    :: d_step { UNDECIDED(me, 0); ended[me] = ended[me] | 1 }
    :: d_step { UNDECIDED(me, 0); split[me] = split[me] | 1 }
    :: d_step { UNDECIDED(me, 1); ended[me] = ended[me] | 2 }
    :: d_step { UNDECIDED(me, 1); split[me] = split[me] | 2 }
#if SOURCES > 2
    :: d_step { UNDECIDED(me, 2); ended[me] = ended[me] | 4 }
    :: d_step { UNDECIDED(me, 2); split[me] = split[me] | 4 }
#endif
    :: d_step { has[me] && call[me] == NOCALL && mustSplit[me]; split[me] = mine[me]; call[me] = END }
    :: d_step { has[me] && call[me] == NOCALL && REST(me) == 0; call[me] = END }
    :: d_step { has[me] && call[me] == NOCALL && REST(me) != 0 && REST(me) != mine[me]; call[me] = KEEP }
    :: d_step { has[me] && call[me] == NOCALL && REST(me) != 0 && refusals > 0; refusals--; call[me] = GIVE }
    :: d_step { has[me] && call[me] == NOCALL && REST(me) != 0 && refusals > 0; refusals--; call[me] = HOLD }
    :: d_step {
            call[me] != NOCALL;
            settlePack(me, me);
            if
            :: isApplied && call[me] == KEEP ->
                mine[me] = REST(me);
                ended[me] = 0;
                split[me] = 0;
                call[me] = NOCALL
            :: else -> leave(me)
            fi;
            isApplied = false
        }
    /* The reply is lost: to a claim, or to `settlePack`, which is repeated. */
    :: d_step { has[me] && call[me] == NOCALL && faults > 0; faults--; leave(me) }
    :: d_step { call[me] != NOCALL && faults > 0; faults--; settlePack(me, me); isApplied = false }
    /* The call runs later; it is repeated until then, or given up with the lease. */
    :: d_step {
            call[me] != NOCALL && faults > 0 && call[LATE] == NOCALL;
            faults--;
            call[LATE] = call[me];
            mine[LATE] = mine[me];
            ended[LATE] = ended[me];
            split[LATE] = split[me];
            number[LATE] = number[me];
            lateOwner = me
        }
    od
}

#define HASPACK(w) (has[w] && number[w] == attempt && owner == w)
#ifdef NO_SWEEP
#define ISLOST false
#else
#define ISLOST (place == LEASED && !HASPACK(0) && !HASPACK(1))
#endif

/* Due jobs, sweeps, accidents, and the lives of single jobs. */
proctype Time() {
end:
    do
    :: d_step { place == HELD; place = READY }
    :: d_step { ISLOST; sweep() }
    :: d_step { place == LEASED && faults > 0; faults--; sweep() }
    :: d_step { has[0] && faults > 0; faults--; leave(0) }
    :: d_step { has[1] && faults > 0; faults--; leave(1) }
    :: d_step { call[LATE] != NOCALL; settlePack(LATE, lateOwner); isApplied = false; vacate(LATE); lateOwner = 0 }
    :: d_step { single & 1; single = single & ~1; ends[0]++; check() }
    :: d_step { single & 2; single = single & ~2; ends[1]++; check() }
#if SOURCES > 2
    :: d_step { single & 4; single = single & ~4; ends[2]++; check() }
#endif
    od
}

init {
    atomic {
        run Worker(0);
        run Worker(1);
        run Time()
    }
}

ltl ends { <>ALLENDED }
