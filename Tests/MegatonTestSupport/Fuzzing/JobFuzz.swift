#if DEBUG || MEGATON_FUZZ
    import Foundation
    import MegatonPipeline
    import MegatonRedis
    import NIOCore

    @testable import MegatonCluster

    /// Entries that any client may push to the public list: any bytes are a job or an error with a message, a job
    /// equals its JSON, and its outputs stay beneath the template's directory.
    public struct JobFuzz: FuzzTarget {
        public let name = "job"
        public let words = [
            "{", "}", "[", "]", ",", ":", "\"", "null", "true", "\\u0000", "\\ud800", "\\ud83d\\ude00", "\"source\":",
            "\"renditions\":[", "\"width\":", "\"output\":\"file:///", "{stem}", "{path}", "{name}", "..", "../",
            "%2e%2e",
            "%00", "...", "\"background\":\"#", "\"dpr\":1e-308", "\"focus\":{\"x\":",
            "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        ]
        public let seeds: [[UInt8]] = [
            #"{"source":"https://h/a.jpg"}"#,
            #"""
            {"id":"a.1","kind":"process","source":"https://h.example/a/b.jpg","renditions":[{"name":"small","width":256,
            "height":256,"fit":"cover","format":"webp","quality":75,"background":"#102030"},{"width":12}],
            "output":"file:///srv/{host}/{path}/{stem}-{name}.{ext}","batch":"spring","priority":"high","attempts":3}
            """#,
            #"{"kind":"fetch","source":"file:///srv/a%20b.png","priority":"bulk","attempts":100}"#,
            #"{"id":"a.1","batch":"b","labels":{"a":"b"},"source":"https://h/a.jpg",}"#,
            #"{"source":"data:image/png;base64,AAEC","preset":"web","output":"file:///t/{hash}/{width}x{height}"}"#,
        ].map { Array($0.utf8) }

        public init() {}

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            var fields = ["\"source\":\(text(random.once(in: 4) ? "" : "http://h/", &random))"]
            let others = [
                "\"id\":\"\(number(&random)).a:b-c_d\"", "\"kind\":\"\(random.pick(["process", "fetch"]))\"",
                "\"output\":\"file:///\(output(&random))\"", "\"batch\":\"b\(number(&random))\"",
                "\"priority\":\"\(random.pick(["high", "normal", "bulk"]))\"", "\"attempts\":\(number(&random))",
                "\"credential\":\(text("", &random))", "\"id\":\(number(&random))",
                "\"labels\":{\"a\":\(number(&random)),\"b\":\(text("", &random)),\"c\":true}",
                random.once(in: 2)
                    ? "\"renditions\":[\(rendition("a", &random)),\(rendition("b.c", &random))]"
                    : "\"preset\":\(text("", &random))",
            ]
            for field in others where random.once(in: 2) { fields.append(field) }
            if random.once(in: 20) { fields.append(random.pick(["\"colour\":1", "\"kind\":2", "\"source\":\"\""])) }
            return Array("{\(fields.shuffled(using: &random).joined(separator: ","))}".utf8)
        }

        /// Mostly a valid number.
        private func number(_ random: inout SeededGenerator) -> String {
            let odd = ["101", "0", "-1", "8193", "1.0", "2.5", "1e2", "9223372036854775808", "null"]
            return random.once(in: 20) ? random.pick(odd) : random.pick(["1", "5", "77", "100"])
        }

        private func text(_ start: String, _ random: inout SeededGenerator) -> String {
            let parts = [
                "a", "/", "/", ".", ".", "..", "...", ".jpg", "%2F", "%2e", "%00", "\\u0000", "\\n", "?", "#", "\\\\",
                "é",
                "👩‍👧", " ", "{stem}", "http://", "file:///", "data:,",
            ]
            return "\"\(start)\((0..<Int.random(in: 0...5, using: &random)).map { _ in random.pick(parts) }.joined())\""
        }

        private func output(_ random: inout SeededGenerator) -> String {
            let parts = [
                "t/", "{path}", "{stem}", "{name}", "{ext}", "{host}", "{hash}", "{width}", "/", ".", "-", "%20",
            ]
            if random.once(in: 2) {
                return random.pick(["t/{stem}/{name}.{ext}", "{path}/{stem}", "t/{host}/.{stem}/x"])
            }
            return (0..<Int.random(in: 0...8, using: &random)).map { _ in random.pick(parts) }.joined()
        }

        private func rendition(_ name: String, _ random: inout SeededGenerator) -> String {
            let odd = ["#fff", "123456", "#+12345", "#１２３４５６", "\\u0000"]
            let fields = [
                "\"name\":\"\(random.once(in: 20) ? random.pick([".", "..", ""]) : name)\"",
                "\"width\":\(number(&random))", "\"height\":\(number(&random))",
                "\"background\":\"\(random.once(in: 20) ? random.pick(odd) : "#0A0b0c")\"",
            ]
            let more = [
                ",\"gravity\":\"attention\"", ",\"focus\":{\"x\":0.1,\"y\":1}", ",\"dpr\":\(number(&random))",
                ",\"dpr\":1.7",
                ",\"effort\":\(number(&random))", ",\"animated\":true", ",\"keepMetadata\":\"copyright\"",
                ",\"profile\":\"keep\"", ",\"qualityProfile\":\"fast\"", ",\"chroma\":\"444\"",
                ",\"linear\":true", ",\"linear\":1",
            ]
            return "{\(fields.joined(separator: ","))\(random.once(in: 3) ? random.pick(more) : "")}"
        }

        public func check(_ input: [UInt8]) throws {
            let data = Data(input)
            try checkIdentity(data)
            for wasValidated in [false, true] {
                let job: Job
                do throws(JobError) {
                    job = try Job(json: data, wasValidated: wasValidated)
                } catch {
                    try promise(!error.message.isEmpty, "an error without a sentence")
                    continue
                }
                let json = job.json()
                try promise(!json.contains(10), "a job's JSON is one line")
                let again = try Job(json: json, wasValidated: wasValidated)
                try promise(again == job && again.json() == json, "\(job) became \(again)")
                if !wasValidated { try checkOutputs(job) }
            }
            // The content of a dead letter is parsed with the same care.
            _ = DeadLetter(key: "x", died: 0, json: .bulk(ByteBuffer(bytes: input)))
        }

        /// The fast reader and the decoder agree, and a rejected job keeps the id that it would have had.
        private func checkIdentity(_ data: Data) throws {
            let decoded = try? JSONDecoder().decode(Job.self, from: data)
            if let plain = Job(plainJSON: data), plain.problem == nil {
                try promise(plain == decoded, "\(plain) is read as \(String(describing: decoded))")
            }
            guard let decoded else { return }
            let identity = JobIdentity(data)
            try promise(identity.id == decoded.id, "the id \(decoded.id ?? "") is read as \(identity.id ?? "")")
            try promise(identity.batch == decoded.batch, "the batch is read as \(identity.batch ?? "")")
            let labels = decoded.labels.flatMap { $0.isEmpty ? nil : $0 }
            try promise(identity.labels == labels, "the labels are read as \(identity.labels ?? [:])")
        }

        private func checkOutputs(_ job: Job) throws {
            guard let output = job.output else { return }
            let template = try OutputTemplate(output)
            for rendition in job.renditions ?? Job.defaultRenditions {
                let size = PixelSize(width: 1, height: 1)
                let path = template.path(source: job.source, rendition: rendition, size: size)
                try promise(path.hasPrefix("/") && !path.utf8.contains(0), "\"\(path)\" is no path")
                try promise(!path.split(separator: "/").contains(".."), "\"\(path)\" of \(job.source) leads upwards")
            }
        }
    }
#endif
