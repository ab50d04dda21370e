internal import MegatonRedis

/// Lua scripts that change jobs and batches. Nothing else changes them, except a client's `LPUSH` to an intake.
///
/// Each is a file in `Scripts`; its first lines are its contract. Every script names all keys that it touches, takes
/// the time from Redis, and does a bounded amount of work. Scripts that work the queue off carry `allow-oom`: when
/// Redis is out of memory, jobs can still finish while no new work gets in.
enum QueueScripts {
    // Batches
    static let submit = script("submit", PackageResources.submit_lua)
    static let pushJob = script("pushJob", PackageResources.pushJob_lua)
    static let cancelBatch = script("cancelBatch", PackageResources.cancelBatch_lua)
    static let closeBatch = script("closeBatch", PackageResources.closeBatch_lua)
    static let results = script("results", PackageResources.results_lua)
    static let dropOutcomes = script("dropOutcomes", PackageResources.dropOutcomes_lua)
    static let promoteDelayed = script("promoteDelayed", PackageResources.promoteDelayed_lua)
    static let forgetBatch = script("forgetBatch", PackageResources.forgetBatch_lua)
    static let deliverReplies = script("deliverReplies", PackageResources.deliverReplies_lua)
    static let removeReplies = script("removeReplies", PackageResources.removeReplies_lua)
    static let removeAway = script("removeAway", PackageResources.removeAway_lua)
    static let claimWebhooks = script("claimWebhooks", PackageResources.claimWebhooks_lua)
    static let settleWebhook = script("settleWebhook", PackageResources.settleWebhook_lua)
    static let expireWebhooks = script("expireWebhooks", PackageResources.expireWebhooks_lua)

    // The leader: intake and lease
    static let stage = script("stage", PackageResources.stage_lua)
    static let replay = script("replay", PackageResources.replay_lua)
    static let admit = script("admit", PackageResources.admit_lua)
    static let lead = script("lead", PackageResources.lead_lua)
    static let publish = script("publish", PackageResources.publish_lua)
    static let resign = script("resign", PackageResources.resign_lua)
    static let joinProtocol = script("joinProtocol", PackageResources.joinProtocol_lua)

    // Workers
    static let claim = script("claim", PackageResources.claim_lua)
    static let renew = script("renew", PackageResources.renew_lua)
    static let release = script("release", PackageResources.release_lua)
    static let settle = script("settle", PackageResources.settle_lua)
    static let settlePack = script("settlePack", PackageResources.settlePack_lua)
    static let retry = script("retry", PackageResources.retry_lua)
    static let hold = script("hold", PackageResources.hold_lua)
    static let giveUp = script("giveUp", PackageResources.giveUp_lua)
    static let sweep = script("sweep", PackageResources.sweep_lua)

    // Administration
    static let changeLayout = script("changeLayout", PackageResources.changeLayout_lua)
    static let control = script("control", PackageResources.control_lua)
    static let findJob = script("findJob", PackageResources.findJob_lua)
    static let requeue = script("requeue", PackageResources.requeue_lua)
    static let drop = script("drop", PackageResources.drop_lua)
    static let expireDead = script("expireDead", PackageResources.expireDead_lua)
    static let audit = script("audit", PackageResources.audit_lua)
    static let auditBodies = script("auditBodies", PackageResources.auditBodies_lua)
    static let auditStage = script("auditStage", PackageResources.auditStage_lua)
    static let auditIntake = script("auditIntake", PackageResources.auditIntake_lua)

    static let all = [
        submit, pushJob, cancelBatch, closeBatch, results, dropOutcomes, promoteDelayed, forgetBatch, deliverReplies,
        removeReplies, removeAway, claimWebhooks, settleWebhook, expireWebhooks, stage, replay, admit, lead, publish,
        resign, joinProtocol, claim, renew, release, settle, settlePack, retry, hold, giveUp, sweep, changeLayout,
        control, requeue, drop, expireDead, findJob, audit, auditBodies, auditStage, auditIntake,
    ]

    /// In this order, as each uses functions of those before it.
    private static let prelude = LuaPrelude(
        source: [
            PackageResources.queuePrelude_lua, PackageResources.frontierPrelude_lua,
            PackageResources.outcomePrelude_lua, PackageResources.webhookPrelude_lua,
            PackageResources.batchPrelude_lua,
        ].map { String(decoding: $0, as: UTF8.self) }.joined()
    )

    private static func script(_ name: String, _ file: [UInt8]) -> RedisScript {
        RedisScript(name: name, file: file, prelude: prelude)
    }
}
