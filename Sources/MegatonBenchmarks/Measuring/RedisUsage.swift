import MegatonPipeline

/// Load on Redis in one part of a benchmark.
struct RedisUsage: Encodable, Sendable {
    var seconds: Double
    /// Processor time of all its threads.
    var redisCPUSeconds: Double
    /// Processor time as a fraction of one processor.
    var redisLoad: Double
    /// Busy fraction of all processors of the machine, from any process; nil if unknown.
    var machineLoad: Double?
    /// Number of jobs that ended.
    var jobs: Int
    var jobsPerSecond: Double
    /// Including commands within scripts.
    var commandsPerSecond: Double
    var scriptsPerSecond: Double
    /// Nil if no job ended, like the two properties below.
    var cpuMicrosecondsPerJob: Double?
    var commandsPerJob: Double?
    var scriptsPerJob: Double?

    init(from before: RedisInfo, to after: RedisInfo, jobs: Int, in time: Duration, machineLoad: Double?) {
        seconds = time.inSeconds
        redisCPUSeconds = after.cpuSeconds - before.cpuSeconds
        redisLoad = redisCPUSeconds / seconds
        self.machineLoad = machineLoad
        self.jobs = jobs
        jobsPerSecond = Double(jobs) / seconds
        let (commands, scripts) = (Double(after.commands - before.commands), Double(after.scripts - before.scripts))
        commandsPerSecond = commands / seconds
        scriptsPerSecond = scripts / seconds
        guard jobs > 0 else { return }
        cpuMicrosecondsPerJob = redisCPUSeconds * 1e6 / Double(jobs)
        commandsPerJob = commands / Double(jobs)
        scriptsPerJob = scripts / Double(jobs)
    }
}
