internal import MegatonRedis

extension Doctor {
    /// Loads each script, which compiles it: one that a server cannot run is found here, not in the middle of a batch.
    func scripts(of part: Part, at redis: RedisClient) async throws(RedisError) -> Finding {
        var scripts: [RedisScript] = []
        if part == .control { scripts += QueueScripts.all + HostScripts.all }
        if part == .cache || isShared { scripts += FlightScripts.all }
        let replies = try await redis.pipeline(scripts.map { ["SCRIPT", "LOAD", .string($0.source)] })
        let subject = "\(part.rawValue): scripts"
        for (script, reply) in zip(scripts, replies) {
            if case .error(let text) = reply {
                return Finding(level: .error, subject: subject, message: "\(script.name) does not load: \(text)")
            }
        }
        return Finding(level: .ok, subject: subject, message: "all \(scripts.count) load")
    }
}
