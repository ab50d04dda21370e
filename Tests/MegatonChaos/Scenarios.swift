/// All long scenarios, in the order of the article "When things die".
enum Scenarios {
    static let all: [any Scenario.Type] = [
        KillsUnderLoad.self, Signals.self, Soak.self, ShortOutage.self, LongOutage.self, LostShard.self, Cuts.self,
        BlackHole.self,
        Ghost.self, SentinelFailover.self, NoReplicas.self, SplitMaster.self, FullRedis.self, SlowRedis.self,
        TakeOver.self, ManyWaiters.self, ManyWaitersLeaderKilled.self, BadOrigins.self, ClockStep.self, RedisClock.self,
        SmallBehindLarge.self, CutSubscriptions.self, PaceAfterDeath.self, PaceOfUnevenFleet.self, CrashingFiles.self,
        OneCrasher.self, LargeJobs.self, HostileImages.self,
    ]
}
