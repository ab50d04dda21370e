/// All long scenarios, in the order of the test plan.
enum Scenarios {
    static let all: [any Scenario.Type] = [
        ManyWaiters.self, ManyWaitersLeaderKilled.self, SentinelFailover.self, NoReplicas.self, SplitMaster.self,
        SmallBehindLarge.self, KillsUnderLoad.self, Signals.self, Cuts.self, ShortOutage.self, LongOutage.self,
        BlackHole.self, Ghost.self, FullRedis.self, SlowRedis.self, TakeOver.self, BadOrigins.self, Soak.self,
        ClockStep.self, RedisClock.self, CutSubscriptions.self,
    ]
}
