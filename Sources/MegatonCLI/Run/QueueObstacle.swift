import MegatonCluster

/// Reasons why the jobs of a cluster wait, for messages.
enum QueueObstacle {
    /// Why no job starts, and the command that ends it or explains it; nil if jobs start.
    static func pause(_ status: ClusterStatus) -> String? {
        if status.pauses.contains(JobQueue.PauseMode.paused.rawValue) {
            return "the queue is paused; megaton queue resume starts them"
        }
        if status.pauses.contains(JobQueue.PauseMode.drain.rawValue) {
            return "the queue is draining; megaton queue resume admits them"
        }
        return lacksDisks(status) ? "\(noDisk); megaton status has the reasons" : nil
    }

    private static let noDisk = "no worker can write outputs"

    /// Whether all workers wait until they can write outputs again.
    private static func lacksDisks(_ status: ClusterStatus) -> Bool {
        let living = status.livingWorkers
        return !living.isEmpty && living.allSatisfy { $0.problem != nil }
    }

    /// Why no ready job ends, cancelled ones included; nil if they do, or if jobs may still end in another way.
    static func ofReadyJobs(_ status: ClusterStatus) -> String? {
        if status.livingWorkers.isEmpty { return "no worker is running" }
        // A leader ends the cancelled jobs that it has not admitted, and workers end those that run.
        let isLed = status.leader != nil && status.staged > 0
        if status.running == 0 && !isLed && lacksDisks(status) { return noDisk }
        guard status.pauses.contains(JobQueue.PauseMode.paused.rawValue), status.running == 0, !isLed else {
            return nil
        }
        return "the queue is paused"
    }

    /// The processes that are missing, and the command that starts one. A worker without a coordinator is enough: it
    /// takes over after some seconds.
    static func missingWorker(_ status: ClusterStatus) -> String? {
        guard status.livingWorkers.isEmpty else { return nil }
        if !status.former.isEmpty {
            return "the queue is in use by Megaton 0.1 or 0.2, which does not read jobs of this version. Upgrade it; "
                + "docs/upgrading.md has the steps"
        }
        return status.leader == nil
            ? "the cluster has no worker and no coordinator now. Start megaton worker; a worker takes over the "
                + "coordinator's work after some seconds"
            : "the cluster has no worker now. Start megaton worker"
    }
}
