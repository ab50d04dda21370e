extension ClusterStatus {
    /// Jobs that wait for their admission or for a worker.
    private var waitingJobs: Int { ready + intake + staged }

    /// The number of jobs that wait, as a clause.
    static func waiting(_ count: Int) -> String { count == 1 ? "1 job waits" : "\(count) jobs wait" }

    /// That no worker runs, and what to do, as sentences.
    var missingWorkers: String { "no worker is running; \(Self.waiting(waitingJobs)). Start megaton worker." }

    /// The same, if no worker runs although jobs wait; nil otherwise.
    package var workerWarning: String? { livingWorkers.isEmpty && waitingJobs > 0 ? missingWorkers : nil }

    /// Living workers that claim few jobs or none, each with the reason. At most five.
    package var workerProblems: [String] {
        let problems = livingWorkers.compactMap { worker in
            worker.problem.map { "\(worker.name) claims few jobs or none: \($0)" }
        }
        return Array(problems.prefix(5))
    }
}
