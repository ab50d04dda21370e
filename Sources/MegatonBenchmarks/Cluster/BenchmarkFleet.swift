import MegatonCluster
import MegatonCommandLine

/// The worker processes of a benchmark of a large fleet.
struct BenchmarkFleet: Sendable {
    let workers: Int
    /// Maximum number of concurrent jobs per worker.
    let concurrency: Int

    /// Maximum number of workers in one process.
    private static let workersPerProcess = 250
    /// Files of a process beside those of its workers.
    private static let filesOfProcess = 200

    var processes: Int { (workers + Self.workersPerProcess - 1) / Self.workersPerProcess }

    /// Arguments of the processes, which have the same number of workers, or one more.
    ///
    /// - Parameters:
    ///   - command: the command of a process, with its own options.
    ///   - filesPerWorker: files that each worker opens.
    func arguments(_ command: [String], filesPerWorker: Int) -> [[String]] {
        (0..<processes).map { number in
            let share = workers * (number + 1) / processes - workers * number / processes
            return command + [
                "--workers", String(share), "--concurrency", String(concurrency),
                "--open-files", String(share * filesPerWorker + Self.filesOfProcess),
            ]
        }
    }

    /// Checks that each server accepts the connections of the workers.
    ///
    /// - Parameter connections: number of connections of all workers to all servers.
    /// - Throws: `CLIError` with the remedy.
    func requireConnections(_ connections: Int, to infos: ServerInfos) throws(CLIError) {
        let share = connections / max(1, infos.servers.count)
        for (name, info) in infos.servers.sorted(by: { $0.key < $1.key }) {
            guard let maximum = info.maximumConnections, share + info.connections > maximum else { continue }
            throw CLIError.usage(
                "\(Counted.of(workers, "worker")) need about \(share) connections to \(name), which accepts "
                    + "\(maximum): raise its maxclients, or take fewer workers."
            )
        }
    }
}
