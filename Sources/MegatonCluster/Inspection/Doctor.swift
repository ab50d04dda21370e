internal import MegatonPipeline
package import MegatonRedis

/// Checks Redis, the queue and libvips for faults, and for settings that cause trouble later.
package struct Doctor: Sendable {
    let control: RedisClient
    /// The servers of the cache.
    let caches: [RedisClient]
    /// Whether the cache is on the control Redis, or a part of it.
    let isShared: Bool
    let keys: QueueKeys

    /// - Parameter caches: the servers of the cache, or the same client as `control` if one Redis serves as both.
    package init(control: RedisClient, caches: [RedisClient], keys: QueueKeys) {
        self.control = control
        self.caches = caches
        self.keys = keys
        isShared = caches.contains { $0.configuration == control.configuration }
    }

    /// Runs all checks and returns every finding, including the fine ones.
    ///
    /// - Parameter repair: whether faults of the queue are repaired; nothing else is changed in any case.
    package func examine(repair: Bool = false) async -> [Finding] {
        let (ofControl, controlClock) = await server(.control, at: control)
        var findings = ofControl
        for cache in caches where cache.configuration != control.configuration {
            var (ofCache, cacheClock) = await server(.cache, at: cache)
            if let controlClock, let cacheClock { ofCache.append(Self.clocks(controlClock - cacheClock)) }
            if caches.count > 1 {
                for index in ofCache.indices { ofCache[index].subject += " (\(cache.configuration))" }
            }
            findings += ofCache
        }
        findings.append(libvips())
        // A control Redis that cannot be reached is reported already, and it holds the queue.
        if controlClock != nil {
            findings += await state()
            findings.append(await audit(repair: repair))
        }
        return findings
    }

    /// Checks a further shard of a queue.
    ///
    /// - Parameter checksServer: whether its Redis was not checked yet.
    package func examineShard(repair: Bool = false, checksServer: Bool) async -> [Finding] {
        var findings: [Finding] = []
        if checksServer {
            let (ofControl, clock) = await server(.control, at: control)
            findings = ofControl
            if clock == nil { return named(findings) }
        }
        findings += await state()
        findings.append(await audit(repair: repair))
        return named(findings)
    }

    private func named(_ findings: [Finding]) -> [Finding] {
        findings.map { finding in
            var finding = finding
            finding.subject += " (shard \(keys.shard))"
            return finding
        }
    }

    private func libvips() -> Finding {
        do throws(ImagePipeline.Error) {
            try VipsRuntime.start()
            return Finding(
                level: .ok,
                subject: "libvips",
                message: "\(VipsRuntime.version); untrusted loaders are blocked; readable types: "
                    + AssetType.supported.map(\.description).sorted().joined(separator: ", ")
            )
        } catch {
            return Finding(level: .error, subject: "libvips", message: error.message)
        }
    }
}

extension Doctor {
    /// Result of one check.
    package struct Finding: Sendable, Codable, Equatable {
        /// Severity of a finding.
        package enum Level: String, Sendable, Codable {
            case ok, warning, error
        }

        package var level: Level
        package var subject: String
        /// The observation and, unless it is fine, the remedy.
        package var message: String
    }
}
