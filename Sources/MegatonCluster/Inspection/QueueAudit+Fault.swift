extension QueueAudit {
    /// What is wrong with one id, as the script saw it.
    struct Fault: Equatable {
        /// Of the job, the text of its key; the epoch of a stage, the batch of an intake.
        let id: String
        let kind: Kind
        /// `lease + ready`: the lists that have it.
        var places = ""
        /// Empty where it has none or none is known.
        var batch = ""

        /// For people.
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
