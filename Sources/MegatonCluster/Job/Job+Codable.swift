package import Foundation
internal import MegatonPipeline

/// The wire form. Unknown fields are refused by name, and so is every value that cannot work.
extension Job: Decodable {
    /// How a field of the wire form is read.
    fileprivate struct Field: Sendable {
        let decode: @Sendable (KeyedDecodingContainer<CodingKeys>, inout Job) throws -> Void
        /// Reads plain JSON; false leaves the job to the decoder.
        let readPlain: @Sendable (inout Job, inout PlainJSONReader) -> Bool
    }

    private static func field(_ key: CodingKeys) -> Field {
        switch key {
        case .source: Field(key, \.source, isRequired: true, allowed: allowedSources) { $0.string() }
        case .credential:
            Field { fields, job in
                // An invalid value is not shown: it may be a secret given in place of its name.
                do {
                    job.credential = try fields.decodeIfPresent(String.self, forKey: key)
                } catch {
                    throw problem(of: key).error(at: fields.codingPath)
                }
            } readPlain: { job, reader in
                job.credential = reader.string()
                return job.credential != nil
            }
        case .id:
            Field { fields, job in
                job.id = try fields.read(JobID.self, key, allowed: JobID.allowed)?.text
            } readPlain: { job, reader in
                job.id = reader.string() ?? reader.int().map(String.init)
                return job.id != nil
            }
        case .kind: Field(key, \.kind)
        case .renditions:
            Field(key, \.renditions, allowed: "are lists of objects") {
                $0.array().flatMap { RenditionLists.recent.list($0) }
            }
        case .preset: Field(key, \.preset, allowed: "are names of the coordinator's presets") { $0.string() }
        case .output:
            Field(key, \.output, allowed: "are texts such as \"file:///srv/{path}/{stem}-{name}.{ext}\"") {
                $0.string()
            }
        case .batch: Field(key, \.batch, allowed: allowedNames) { $0.string() }
        case .priority: Field(key, \.priority)
        case .attempts: Field(key, \.attempts, allowed: "are whole numbers from 1 to 100") { $0.int() }
        // Rare, as `reload`, `refresh` and `refused`: the decoder reads them.
        case .ignoreRememberedFailures:
            Field { fields, job in
                job.ignoresRememberedFailures = try fields.read(Bool.self, key, allowed: allowedTruths) ?? false
            } readPlain: { _, _ in
                false
            }
        case .labels:
            Field(key, \.labels, allowed: "are objects of texts, numbers, true and false") { Labels.read(&$0) }
        case .requeuedFrom: Field(key, \.requeuedFrom, allowed: allowedNames) { $0.string() }
        case .failOn: Field(key, \.failOn)
        case .replace: Field(key, \.replace)
        case .reload: Field(key, \.reload, allowed: allowedTruths) { _ in nil }
        case .facts: Field(key, \.facts, allowed: allowedFacts) { $0.strings()?.words() }
        case .refresh: Field(key, \.refresh, allowed: allowedTruths) { _ in nil }
        case .refused: Field(key, \.refused, allowed: "are reasons of the client that submits the job") { _ in nil }
        case .idempotencyKey: Field(key, \.idempotencyKey, allowed: allowedKeys) { $0.string() }
        case .idempotencyTTL: Field(key, \.idempotencyTTL, allowed: allowedTTLs) { $0.int() }
        case .notBefore:
            Field { fields, job in
                job.notBefore = try fields.read(JobTime.self, key, allowed: JobTime.allowed)?.seconds
            } readPlain: { job, reader in
                job.notBefore = reader.int().map(Double.init)
                return job.notBefore != nil
            }
        case .reply: Field(key, \.reply, allowed: "is \(JobReply.example)") { JobReply(&$0) }
        case .batchSize: Field(key, \.batchSize, allowed: allowedBatchSizes) { $0.int() }
        case .traceparent: Field(key, \.traceparent, allowed: TraceParent.allowed) { $0.string() }
        }
    }

    private static let fields = CodingKeys.allCases.map(field)
    private static let plainReaders = Dictionary(
        uniqueKeysWithValues: zip(CodingKeys.allCases.map(\.rawValue), fields.map(\.readPlain))
    )

    /// - Throws: `DecodingError` with a sentence that names the field, its value and the allowed values.
    public init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        let container = try decoder.fields(
            CodingKeys.self,
            isChecked: isChecked,
            allowed: #"an object such as {"source": "https://example.com/a.jpg"}"#,
            internalKeys: [.requeuedFrom, .refused]
        )
        self.init(source: "")
        for field in Self.fields { try field.decode(container, &self) }
        if !isChecked, let problem { throw problem.error(at: decoder.codingPath) }
    }

    /// Fast path for the JSON of most jobs.
    ///
    /// - Returns: nil if the JSON is not plain or has an invalid value: `init(from:)` then names the problem.
    init?(plainJSON json: Data) {
        guard let job = PlainJSONReader.read(json, { Self.read(&$0) }) else { return nil }
        self = job
    }

    /// Reads a job in the same way as part of another object.
    static func read(_ reader: inout PlainJSONReader) -> Job? {
        var job = Job(source: "")
        let isRead = reader.object { reader, name in Self.plainReaders[name]?(&job, &reader) ?? false }
        return isRead && !job.source.isEmpty ? job : nil
    }

    /// Describes the first invalid value; nil if all are valid.
    package var validationError: String? { problem?.description }

    /// The first field whose value cannot be used; nil if there is none.
    var problem: FieldProblem? {
        if let refused { return FieldProblem("", "is refused: \(refused)") }
        if let id, !Self.isName(id) {
            return FieldProblem("id", "is \(FieldProblem.quoted(id)); allowed \(JobID.allowed)")
        }
        for (field, name) in [("batch", batch), ("requeuedFrom", requeuedFrom)] {
            if let name, !Self.isName(name) {
                return FieldProblem(field, "is \(FieldProblem.quoted(name)); allowed \(Self.allowedNames)")
            }
        }
        if let credential, !Self.isName(credential) { return Self.problem(of: .credential) }
        if source.isEmpty { return FieldProblem("source", "is empty; allowed \(Self.allowedSources)") }
        // Parsed only if its host can be that long.
        if source.utf8.count > OriginHost.longest, let host, host.utf8.count > OriginHost.longest {
            return FieldProblem("source", "has a host of more than 253 bytes")
        }
        if !(1...100).contains(attempts) { return FieldProblem("attempts", "is \(attempts); allowed are 1 to 100") }
        if let labels, let problem = Self.problem(labels) { return problem }
        if let problem = scheduleProblem { return problem }
        if let batchSize {
            let name = CodingKeys.batchSize.rawValue
            if batch == nil { return FieldProblem(name, "goes with a batch only") }
            if !Self.batchSizes.contains(batchSize) {
                return FieldProblem(name, "is \(batchSize); allowed \(Self.allowedBatchSizes)")
            }
        }
        if let traceparent, !TraceParent.isValid(traceparent) {
            let shown = FieldProblem.quoted(traceparent)
            return FieldProblem(CodingKeys.traceparent.rawValue, "is \(shown); allowed \(TraceParent.allowed)")
        }
        if let problem = reply?.problem { return FieldProblem("reply.\(problem.path)", problem.problem) }
        return renditionsProblem ?? outputProblem
    }

    /// A fault of the fields that say whether and when the job runs.
    private var scheduleProblem: FieldProblem? {
        let name = CodingKeys.idempotencyKey.rawValue
        if let key = idempotencyKey, !(1...Self.maximumKeySize).contains(key.utf8.count) {
            return FieldProblem(name, "has \(key.utf8.count) bytes; allowed \(Self.allowedKeys)")
        }
        if let ttl = idempotencyTTL {
            let ttlName = CodingKeys.idempotencyTTL.rawValue
            guard idempotencyKey != nil else { return FieldProblem(ttlName, "goes with a \(name) only") }
            if !Self.ttls.contains(ttl) { return FieldProblem(ttlName, "is \(ttl); allowed \(Self.allowedTTLs)") }
        }
        guard let notBefore else { return nil }
        let latest = Date().timeIntervalSince1970 + Self.maximumDelay
        guard notBefore.isFinite, (0...latest).contains(notBefore) else {
            return FieldProblem("notBefore", "is \(JobTime.text(notBefore)); allowed \(JobTime.allowed)")
        }
        return nil
    }

    private var renditionsProblem: FieldProblem? {
        guard let renditions else { return nil }
        if let problem = Self.problem(of: renditions, in: "renditions") { return problem }
        return preset == nil ? nil : FieldProblem("preset", "goes with no renditions: a job has either of them")
    }

    /// The reason why renditions, each of them valid, are no list of a job; nil if they are one.
    ///
    /// - Parameter field: the name of the list, for the message.
    package static func problem(of renditions: [Rendition], in field: String) -> FieldProblem? {
        if renditions.isEmpty {
            return FieldProblem(field, "is empty; allowed are 1 to \(maximumRenditions) renditions")
        }
        if renditions.count > maximumRenditions {
            return FieldProblem(field, "has \(renditions.count) renditions; allowed are 1 to \(maximumRenditions)")
        }
        var places: [String: Int] = [:]
        for (place, rendition) in renditions.enumerated() {
            if let other = places.updateValue(place, forKey: rendition.name) {
                let name = FieldProblem.quoted(rendition.name)
                return FieldProblem("\(field)[\(place)].name", "is \(name), a name that \(field)[\(other)] shares")
            }
        }
        return nil
    }

    private var outputProblem: FieldProblem? {
        guard let output else { return nil }
        do {
            _ = try OutputTemplate(output)
            return nil
        } catch {
            return FieldProblem("output", "is \(FieldProblem.quoted(output)): \(error.message)")
        }
    }

    private static let allowedNames = "are texts of \(nameRule)"
    private static let allowedSources = "are URLs with https:, http:, file:, data: or s3:"
    private static let allowedTruths = "are true and false"

    /// Maximum number of bytes of an idempotency key.
    private static let maximumKeySize = 128
    private static let ttls = 1...(7 * 24 * 3600)
    /// Maximum number of seconds from now to `notBefore`.
    package static let maximumDelay = 366.0 * 24 * 3600
    private static let allowedKeys = "are texts of 1 to 128 bytes"
    private static let allowedFacts = "are lists of \(OptionalFact.allowedWords); an empty one is for none"
    private static let allowedTTLs = "are whole numbers of seconds from 1 to 604800"

    static let batchSizes = 1...1_000_000_000
    private static let allowedBatchSizes = "are whole numbers from 1 to 1000000000"

    private static func problem(of key: CodingKeys) -> FieldProblem {
        FieldProblem(key.rawValue, "is not the name of one; allowed \(allowedNames)")
    }

    /// The texts for which `isName` is true, as messages have them.
    package static let nameRule = #"1 to 128 of the characters A-Z a-z 0-9 . _ : - except "." and "..""#

    /// Whether a text may be the id of a job, or the name of a batch, a credential or a queue.
    ///
    /// `.` and `..` are none: ids and names are segments of URLs, and clients remove these two before they send a
    /// request.
    package static func isName(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text != "." && text != ".."
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 45, 46, 48...58, 65...90, 95, 97...122: true
                default: false
                }
            }
    }
}

extension Job.Field {
    /// A field that may be missing.
    ///
    /// - Parameter allowed: follows "allowed " in a message about an invalid value.
    fileprivate init<Value: Decodable & Sendable>(
        _ key: Job.CodingKeys,
        _ path: any WritableKeyPath<Job, Value?> & Sendable,
        allowed: String,
        plain: @escaping @Sendable (inout PlainJSONReader) -> Value?
    ) {
        self.init { fields, job in
            job[keyPath: path] = try fields.read(Value.self, key, allowed: allowed)
        } readPlain: { job, reader in
            job[keyPath: path] = plain(&reader)
            return job[keyPath: path] != nil
        }
    }

    /// A field that keeps its default if it is missing.
    fileprivate init<Value: Decodable & Sendable>(
        _ key: Job.CodingKeys,
        _ path: any WritableKeyPath<Job, Value> & Sendable,
        isRequired: Bool = false,
        allowed: String,
        plain: @escaping @Sendable (inout PlainJSONReader) -> Value?
    ) {
        self.init { fields, job in
            if let value = try fields.read(Value.self, key, allowed: allowed) {
                job[keyPath: path] = value
            } else if isRequired {
                throw FieldProblem(key.rawValue, "is missing; allowed \(allowed)").error(at: fields.codingPath)
            }
        } readPlain: { job, reader in
            guard let value = plain(&reader) else { return false }
            job[keyPath: path] = value
            return true
        }
    }

    /// A word that may be missing.
    fileprivate init<Word: WordChoice>(_ key: Job.CodingKeys, _ path: any WritableKeyPath<Job, Word?> & Sendable) {
        self.init(key, path, allowed: Word.allowedWords) { $0.string().flatMap(Word.init(word:)) }
    }

    /// A word that keeps its default if it is missing.
    fileprivate init<Word: WordChoice>(_ key: Job.CodingKeys, _ path: any WritableKeyPath<Job, Word> & Sendable) {
        self.init(key, path, allowed: Word.allowedWords) { $0.string().flatMap(Word.init(word:)) }
    }
}

extension [String] {
    /// The values of these words; nil if one of them has none.
    fileprivate func words<Word: WordChoice>() -> [Word]? {
        let values = compactMap(Word.init(word:))
        return values.count == count ? values : nil
    }
}

extension Job {
    /// Reads the wire form.
    ///
    /// - Parameter wasValidated: whether a coordinator has admitted this JSON. It may then be larger than what was
    ///   pushed, by its id, its batch and the settings of its preset.
    /// - Throws: `JobError` with a sentence for the author of the JSON.
    package init(json: Data, wasValidated: Bool = false) throws(JobError) {
        guard wasValidated || json.count <= Self.maximumSize else {
            throw JobError("the job has \(json.count) bytes of JSON; allowed are \(Self.maximumSize)")
        }
        if let job = Self(plainJSON: json), wasValidated || job.validationError == nil {
            self = job
            return
        }
        do {
            let decoder = JSONDecoder()
            decoder.userInfo[.wasValidated] = wasValidated
            self = try decoder.decode(Job.self, from: json)
        } catch let error as DecodingError {
            throw JobError(error)
        } catch {
            throw JobError("\(error)")
        }
    }
}

/// A job that cannot be accepted.
package struct JobError: Error, Sendable, Equatable {
    /// A sentence that describes the problem.
    package let message: String

    package init(_ message: String) { self.message = message }

    init(_ error: DecodingError) {
        if let problem = error.fieldProblem {
            message = problem.path.isEmpty ? "the job \(problem.problem)" : problem.description
            return
        }
        switch error {
        case .dataCorrupted(let context) where context.codingPath.isEmpty:
            message = "the job is not valid JSON"
        case .dataCorrupted(let context), .typeMismatch(_, let context), .valueNotFound(_, let context),
            .keyNotFound(_, let context):
            message = "\(FieldProblem.path(context.codingPath)) cannot be read"
        @unknown default:
            message = "the job cannot be read"
        }
    }
}
