extension QueueAudit {
    /// Faults that an audit found and repaired.
    package struct Report: Sendable, Codable, Equatable {
        /// One fault, as an example.
        package struct Example: Sendable, Codable, Equatable {
            /// The id of the job; the epoch of a stage; the batch of an intake.
            package var id: String
            /// Description of the fault for operators.
            package var what: String
        }

        /// Number of faults by kind; a kind without faults is absent.
        package var faults: [Kind: Int] = [:]
        /// Number of ids that were examined.
        package var examined: Int
        /// The first faults.
        package var examples: [Example] = []
        /// Number of faults that were repaired.
        package var repaired = 0
        /// False if the queue has more ids than an audit examines.
        package var isComplete: Bool

        private static let shown = 20

        init(examined: Int, isComplete: Bool) {
            self.examined = examined
            self.isComplete = isComplete
        }

        /// All faults.
        package var count: Int { faults.values.reduce(0, +) }

        mutating func add(_ found: [Fault]) {
            for fault in found { faults[fault.kind, default: 0] += 1 }
            examples += found.prefix(max(0, Self.shown - examples.count)).map {
                .init(id: JobKey($0.id).id, what: $0.text)
            }
        }
    }
}

extension QueueAudit {
    /// Kinds of faults, each with its repair.
    package enum Kind: String, Sendable, Codable, CodingKeyRepresentable, CaseIterable {
        /// Body and meta, but in none of ready, lease and delay: no worker would ever claim it. It becomes ready.
        case orphan
        /// In more than one of ready, lease and delay, or twice in ready. The lease takes precedence over delay, delay
        /// over ready.
        case twoStates = "two_states"
        /// A body whose meta is missing or cannot be read. It becomes a dead letter with the code `orphan`: nothing is
        /// lost.
        case withoutMeta = "without_meta"
        /// A meta without a body: no work is left to do. The job fails.
        case withoutBody = "without_body"
        /// In a list, with neither body nor meta. The entry is removed.
        case withoutJob = "without_job"
        /// Alive and dead at once. The dead entry is removed.
        case undead
        /// An earlier epoch in `stages` that has nothing staged. It is removed.
        case emptyStage = "empty_stage"
        /// A batch's intake that no coordinator would read. It is announced.
        case lostIntake = "lost_intake"
    }
}

extension QueueAudit {
    /// A fault of one id, as the script saw it.
    struct Fault: Equatable {
        /// The text of the job's key; the epoch of a stage; the batch of an intake.
        let id: String
        let kind: Kind
        /// The lists that contain it, such as `lease + ready`.
        var places = ""
        /// Empty if it has no batch or the batch is unknown.
        var batch = ""
        /// Its idempotency key; empty if it has none, or if the repair does not need it.
        var key = ""

        /// The text for operators.
        var text: String { JobKey(id).batch.map { "\(sentence) (batch \($0))" } ?? sentence }

        private var sentence: String {
            switch kind {
            case .orphan: "it has a body and a meta but is in no list"
            case .twoStates: "it is in two states: \(places)"
            case .withoutMeta: "it has a body but no readable meta"
            case .withoutBody: "it has a meta but no body"
            case .withoutJob: "it is in \(places) but has neither body nor meta"
            case .undead: "it is alive and dead at once"
            case .emptyStage: "the epoch is in stages but has nothing staged"
            case .lostIntake: "the intake of the batch has jobs but is not in intakes"
            }
        }
    }
}
