extension QueueAudit {
    /// Kinds of faults, each with its repair.
    public enum Kind: String, Sendable, Codable, CodingKeyRepresentable, CaseIterable {
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
