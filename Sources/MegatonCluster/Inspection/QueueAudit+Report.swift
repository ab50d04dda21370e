extension QueueAudit {
    /// What was found, and what became of it.
    public struct Report: Sendable, Codable, Equatable {
        /// One fault, to look at.
        public struct Example: Sendable, Codable, Equatable {
            /// Of the job; the epoch of a stage, the batch of an intake.
            public var id: String
            /// What is wrong with it, for people.
            public var what: String
        }

        /// How many of each kind; none of a kind is left out.
        public var faults: [Kind: Int] = [:]
        /// Ids that were looked at.
        public var examined: Int
        /// The first of the faults.
        public var examples: [Example] = []
        /// Faults that were mended.
        public var repaired = 0
        /// False where the queue has more ids than are looked at.
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
