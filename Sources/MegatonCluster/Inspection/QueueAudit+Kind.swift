extension QueueAudit {
    /// What can be wrong, and what mends it.
    public enum Kind: String, Sendable, Codable, CodingKeyRepresentable, CaseIterable {
        /// Body and meta, but in none of ready, lease and delay: nobody would ever come to it. It becomes ready.
        case orphan
        /// In more than one of ready, lease and delay, or twice in ready. The lease wins over delay, delay over ready.
        case twoStates = "two_states"
        /// A body whose meta is gone or cannot be read. It is buried with the code `orphan`: nothing is lost.
        case withoutMeta = "without_meta"
        /// A meta without a body: there is nothing left to do. It has failed.
        case withoutBody = "without_body"
        /// In a list, with neither body nor meta. The entry goes.
        case withoutJob = "without_job"
        /// Alive and dead at once. The dead entry goes.
        case undead
        /// An earlier epoch in `stages` that has nothing staged. It is forgotten.
        case emptyStage = "empty_stage"
        /// A batch's intake that no coordinator would look into. It is announced.
        case lostIntake = "lost_intake"
    }
}
