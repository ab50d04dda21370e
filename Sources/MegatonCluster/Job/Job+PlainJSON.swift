internal import Foundation
internal import MegatonPipeline

/// Fast path from the wire form to a job.
extension Job {
    /// Nil if the JSON is not plain or has an invalid value: `init(from:)` then names the problem.
    init?(plainJSON json: Data) {
        var job = Job(source: "")
        let isRead = PlainJSONReader.read(json) { reader in
            reader.object { reader, name in
                guard let key = CodingKeys(rawValue: name) else { return false }
                return job.read(key, &reader)
            } ? true : nil
        }
        guard isRead != nil, !job.source.isEmpty else { return nil }
        self = job
    }

    private mutating func read(_ key: CodingKeys, _ reader: inout PlainJSONReader) -> Bool {
        switch key {
        case .renditions:
            renditions = reader.array().flatMap { RenditionLists.recent.list($0) }
            return renditions != nil
        case .attempts:
            guard let number = reader.int() else { return false }
            attempts = number
            return true
        case .labels:
            labels = reader.labels()
            return labels != nil
        case .id:
            id = reader.string() ?? reader.int().map(String.init)
            return id != nil
        case .requeuedFrom:
            requeuedFrom = reader.string()
            return requeuedFrom != nil
        case .kind, .source, .preset, .output, .batch, .priority, .credential, .failOn, .replace:
            guard let text = reader.string() else { return false }
            return set(key, text)
        // Rare: `init(from:)` reads them.
        case .ignoresRememberedFailures, .reload, .refused: return false
        }
    }

    private mutating func set(_ key: CodingKeys, _ text: String) -> Bool {
        switch key {
        case .source: source = text
        case .preset: preset = text
        case .output: output = text
        case .batch: batch = text
        case .credential: credential = text
        case .kind:
            guard let kind = Kind(word: text) else { return false }
            self.kind = kind
        case .priority:
            guard let priority = Priority(word: text) else { return false }
            self.priority = priority
        case .failOn:
            guard let failOn = Rendition.FailOn(rawValue: text) else { return false }
            self.failOn = failOn
        case .replace:
            guard let replace = Replacement(word: text) else { return false }
            self.replace = replace
        case .id, .renditions, .attempts, .labels, .requeuedFrom, .ignoresRememberedFailures, .reload, .refused:
            return false
        }
        return true
    }
}

extension PlainJSONReader {
    /// Reads labels whose values are texts, integers, true and false. Other numbers are left to the decoder.
    mutating func labels() -> Job.Labels? {
        var labels: Job.Labels = [:]
        let isRead = object { reader, name in
            labels[name] =
                reader.string().map { .text($0) } ?? reader.bool().map { .bool($0) }
                ?? reader.int().map { .integer($0) }
            return labels[name] != nil
        }
        return isRead ? labels : nil
    }
}
