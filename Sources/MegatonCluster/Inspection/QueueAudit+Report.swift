extension QueueAudit {
    /// Faults that an audit found and repaired.
    public struct Report: Sendable, Codable, Equatable {
        /// One fault, as an example.
        public struct Example: Sendable, Codable, Equatable {
            /// The id of the job; the epoch of a stage; the batch of an intake.
            public var id: String
            /// Description of the fault for operators.
            public var what: String
        }

        /// Number of faults by kind; a kind without faults is absent.
        public var faults: [Kind: Int] = [:]
        /// Number of ids that were examined.
        public var examined: Int
        /// The first faults.
        public var examples: [Example] = []
        /// Number of faults that were repaired.
        public var repaired = 0
        /// False if the queue has more ids than an audit examines.
        public var isComplete: Bool

        private static let shown = 20

        init(examined: Int, isComplete: Bool) {
            self.examined = examined
            self.isComplete = isComplete
        }

        /// All faults.
        public var count: Int { faults.values.reduce(0, +) }

        mutating func add(_ found: [Fault]) {
            for fault in found { faults[fault.kind, default: 0] += 1 }
            examples += found.prefix(max(0, Self.shown - examples.count)).map {
                .init(id: JobKey($0.id).id, what: $0.text)
            }
        }
    }
}
