import MegatonPipeline

/// What a Redis spent in a part of a benchmark.
struct RedisSpending: Encodable, Sendable {
    var seconds: Double
    /// Of processor time, of all its threads.
    var redisCPUSeconds: Double
    /// The part of one processor that this is.
    var redisLoad: Double
    /// The part of all processors of the machine that was busy, with whatever; nil where that cannot be told.
    var machineLoad: Double?
    /// Jobs that ended.
    var jobs: Int
    var jobsPerSecond: Double
    /// Those within scripts included.
    var commandsPerSecond: Double
    var scriptsPerSecond: Double
    /// Nil where no job ended, as are those below.
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
