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

        /// The text for operators.
        var text: String { JobKey(id).batch.map { "\(sentence) (batch \($0))" } ?? sentence }

        private var sentence: String {
            switch kind {
            case .orphan: "it has body and meta and is in no list"
            case .twoStates: "it is in \(places)"
            case .withoutMeta: "its body has no meta that can be read"
            case .withoutBody: "its meta has no body"
            case .withoutJob: "it is in \(places) and has neither body nor meta"
            case .undead: "it is alive and dead at once"
            case .emptyStage: "the epoch has nothing staged and is in stages"
            case .lostIntake: "the batch's intake has jobs and is not in intakes"
            }
        }
    }
}
