-- Redis runs its scripts with Lua 5.1, without files and modules, and with these libraries:
-- https://redis.io/docs/latest/develop/programmability/lua-api/
std = "lua51"
not_globals = {"dofile", "io", "loadfile", "module", "os", "package", "print", "require"}
read_globals = {"KEYS", "ARGV", "redis", "cjson", "cmsgpack", "bit", "struct"}
-- Of the values that a function returns, a script may need only some.
unused_secondaries = false

-- The Swift side inserts the functions of a prelude into the scripts of these folders.
files["Sources/MegatonCluster/Queue/Scripts"] = {
    read_globals = {
        "now", "unpackMeta", "packMeta", "readyMark", "readySince", "callForAll", "batchKeys", "deathCounts",
        "submittedId", "refusedOutcome", "asDuplicate", "addDeadLetter", "deleteDeadLetters", "trimDeadLetters",
        "isConsistent", "closeIfComplete", "finishOrFlagDamaged", "keepOutcomes", "addToGauge", "onceKey", "readOnce",
        "endOnce", "onceOutcome", "storedOutcomes",
        "noteStored", "hostName", "openFrontier", "holdingEntry", "nextTurn", "countHeldBytes", "hold", "tick",
        "sourceCount", "refusedOutcomes", "labelsOf", "countPlaces", "placesOfShard", "addReply",
        "webhookMember", "unpackWebhook", "webhookCircuit", "webhookTurn", "setWebhookTurn",
        "setGoodWebhook", "endWebhook", "quickClass", "unprovenClass", "failingClass", "classStep",
    },
}
files["Sources/MegatonCluster/RateLimiting/Scripts"] = {
    read_globals = {"now", "limited", "readHost", "storeHost"},
}
-- The functions of a prelude are used by other files.
files["**/*Prelude.lua"] = {ignore = {"211"}}
