/*
 * The ledger: scripts append numbered outcomes, and a reader reads them while Redis returns to an earlier state, twice.
 * Each script is one atomic step, of which the reader may lose the reply.
 *
 * Rule: each job is in the ledger, once. An outcome that is written again after a return differs by its time, so that
 * it has another digest.
 * Mutations: NO_TIME (of job 0, whose outcome is of a script and not of a worker), NO_DIGEST, NO_HISTORY,
 * EARLY_DELETION.
 */

#ifndef JOBS
#define JOBS 3
#endif
#ifndef RETURNS
#define RETURNS 2
#endif
#define NONE 0

/* Outcomes are written as the number of their job, from 1, and of the return before: their digest. */
#define WRITTEN(j) (1 + j + JOBS * era)
#define JOB(outcome) ((outcome - 1) % JOBS)

typedef Ledger {
    byte at[JOBS];
    byte base;      /* The outcomes up to this number are deleted. */
    byte number;    /* Of the last outcome. */
    byte mark;      /* Digest of the last deleted outcome. */
    bool ended[JOBS]
}

Ledger redis, saved;
byte era;
bool isSaved, isRead;

/* The reader's. */
byte last;              /* Digest of its last outcome. */
byte has[JOBS];         /* Jobs of its outcomes, by number. */
byte number;
bool expected[JOBS];    /* It has them, and Redis has not sent them again since it returned. */
byte lines[JOBS];       /* The ledger. */
byte faults = 1;
hidden byte i, k;

inline copy(to, from) {
    i = 0;
    do
    :: i < JOBS -> to.at[i] = from.at[i]; to.ended[i] = from.ended[i]; i++
    :: else -> break
    od;
    i = 0;
    to.base = from.base;
    to.number = from.number;
    to.mark = from.mark
}

inline finish(j) {
    !redis.ended[j];
    redis.ended[j] = true;
#ifdef NO_TIME
    redis.at[redis.number] = (j == 0 -> 1 : WRITTEN(j));
#else
    redis.at[redis.number] = WRITTEN(j);
#endif
    redis.number++
}

active proctype Workers() {
end:
    do
    :: d_step { finish(0) }
    :: d_step { finish(1) }
    :: d_step { finish(2) }
    od
}

/* Until the reader is done: what Redis loses afterwards is not its concern. */
active proctype Failover() {
end:
    do
    :: d_step { !isSaved && !isRead; copy(saved, redis); isSaved = true }
    :: d_step { isSaved && !isRead && era < RETURNS; copy(redis, saved); era++; isSaved = false }
    od
}

#ifdef NO_DIGEST
#define DIFFERS false
#else
#define DIFFERS (number > 0 && last != NONE && (number > redis.base && redis.at[number - 1] != last || \
    number == redis.base && redis.mark != last))
#endif

active proctype Reader() {
    byte from;
    byte size;
    byte page[JOBS];
    bool isBack, isComplete, isDone;

    do
    :: d_step {
            /* `results` */
            isBack = number > redis.number || DIFFERS;
            from = (isBack || number < redis.base -> redis.base : number);
            size = 0;
            do
            :: from + size < redis.number -> page[size] = redis.at[from + size]; size++
            :: else -> break
            od;
#ifdef EARLY_DELETION
            if
            :: redis.number > redis.base ->
                redis.mark = redis.at[redis.number - 1];
                redis.base = redis.number
            :: else
            fi;
#else
            if
            :: !isBack && number > redis.base -> redis.mark = redis.at[number - 1]; redis.base = number
            :: else
            fi;
#endif
            isComplete = redis.ended[0] && redis.ended[1] && redis.ended[2]
        }
        if
        :: d_step { faults > 0; faults-- }  /* The reply is lost. */
        :: d_step {
                if
                :: isBack ->
                    last = NONE;
                    i = from;
                    do
#ifndef NO_HISTORY
                    :: i < number -> expected[has[i]] = true; i++
#endif
                    :: else -> break
                    od
                :: else
                fi;
                number = from;
                i = 0;
                do
                :: i < size ->
                    k = JOB(page[i]);
                    has[number] = k;
                    number++;
                    last = page[i];
                    if
                    :: expected[k] -> expected[k] = false
                    :: else -> lines[k]++; assert(lines[k] == 1)
                    fi;
                    i++
                :: else -> break
                od;
                i = 0; k = 0
            }
            isDone = isComplete
        fi;
        if
        :: isDone -> break
        :: else
        fi
    od;
    isRead = true;
    assert(lines[0] == 1 && lines[1] == 1 && lines[2] == 1)
}

ltl ends { <>isRead }
