extension Decoder {
    /// Returns the fields of an object after a check that none of them is unknown.
    ///
    /// - Parameters:
    ///   - isChecked: whether the JSON is known to be valid, which skips the check.
    ///   - allowed: an example of such an object, for the message if the value is none.
    ///   - internalKeys: fields of Megaton itself, which a message about an unknown field does not offer.
    package func fields<Keys: CodingKey & CaseIterable>(
        _ keys: Keys.Type,
        isChecked: Bool,
        allowed: String,
        internalKeys: [Keys] = []
    ) throws -> KeyedDecodingContainer<Keys> {
        guard let fields = try? container(keyedBy: keys) else { throw noObject(allowed) }
        if !isChecked { try refuseUnknownFields(except: keys, internalKeys: internalKeys) }
        return fields
    }

    /// Like the function above, for fields whose names are known at run time only.
    package func fields(
        _ names: [String],
        isChecked: Bool,
        allowed: String
    ) throws -> KeyedDecodingContainer<AnyCodingKey> {
        guard let fields = try? container(keyedBy: AnyCodingKey.self) else { throw noObject(allowed) }
        if !isChecked { try refuseUnknownFields(of: fields, except: names) }
        return fields
    }

    private func noObject(_ allowed: String) -> DecodingError {
        FieldProblem.error(at: codingPath, "is \(JSONTree.shown(from: self).shown); allowed is \(allowed)")
    }

    /// Throws if a keyed value has fields other than those of `Keys`.
    package func refuseUnknownFields<Keys: CodingKey & CaseIterable>(
        except keys: Keys.Type,
        internalKeys: [Keys] = []
    ) throws {
        let fields = try container(keyedBy: AnyCodingKey.self)
        try refuseUnknownFields(
            of: fields,
            except: Keys.allCases.map(\.stringValue),
            unlisted: internalKeys.map(\.stringValue)
        )
    }

    private func refuseUnknownFields(
        of fields: KeyedDecodingContainer<AnyCodingKey>,
        except known: [String],
        unlisted: [String] = []
    ) throws {
        let unknown = fields.allKeys.map(\.stringValue).filter { !known.contains($0) }
        guard let first = unknown.min() else { return }
        let listed = known.filter { !unlisted.contains($0) }
        throw FieldProblem.error(at: codingPath, "has an \(FieldProblem.unknownField(first, known: listed))")
    }
}
