internal import Foundation

/// A source that may be damaged, decoded up to the damage that the caller tolerates.
///
/// The first attempt treats all damage as an error, which costs nothing for undamaged data. If it fails, the damage is
/// classified; if it is tolerated, the source is decoded again, and a note describes the damage.
struct DamagedSource {
    let data: Data
    let type: AssetType
    /// Damage of a JPEG, if it has been found already.
    var damage: JPEGDamage?

    /// - Parameter body: Reads the source; called again after a failure.
    /// - Returns: The body's result, and notes.
    /// - Throws: `.corruptImage`, or `.unsupportedFormat` for a kind that the decoder does not read; `.renderTimedOut`
    ///   or `.cancelled` if the deadline stopped the work; `.renderFailed` if libvips is too old.
    func decoding<Value>(
        _ failOn: Rendition.FailOn,
        until deadline: RenderDeadline,
        _ body: (DecodingAttempt.Source) throws(VipsError) -> Value
    ) throws(ImageError) -> (value: Value, notes: [String]) {
        // libvips may not have been started: some headers are read without it.
        try VipsRuntime.start()
        guard type == .jpeg else { return try decodingOthers(failOn, deadline, body) }
        var damage = damage ?? JPEGDamage(ofScansIn: data, nil)
        // libvips stops reading at the last row, and libjpeg-turbo decodes some impossible codes without a warning.
        if damage == nil, failOn.isStrict { damage = JPEGDamage(examining: data, until: deadline) }
        if damage == nil {
            switch attempt(.warning, body) {
            case .success(let result):
                // libvips 8.14 checks for warnings of one strip of rows before it reads the next, so warnings of the
                // last strip leave a message but no failure.
                guard result.hasErrors else { return (result.value, result.notes) }
                damage = JPEGDamage(examining: data, until: deadline)
                if let ended = deadline.error { throw ended }
                guard let damage else { return (result.value, result.notes) }
                guard damage.isTolerated(by: failOn) else { throw damage.error }
                return (result.value, RenderNotes.merged([damage.note], result.notes))
            case .failure(let error):
                if let ended = deadline.error ?? error.cause { throw ended }
                damage = JPEGDamage(examining: data, until: deadline)
                // The failure has another cause than the data.
                if damage == nil { throw deadline.error ?? error.asDecodingError() }
            }
        }
        guard let damage, damage.isTolerated(by: failOn) else {
            throw deadline.error ?? damage?.error ?? VipsError("no details").asDecodingError()
        }
        return try last(.nothing, remark: damage.note, deadline, body)
    }

    private func decodingOthers<Value>(
        _ failOn: Rendition.FailOn,
        _ deadline: RenderDeadline,
        _ body: (DecodingAttempt.Source) throws(VipsError) -> Value
    ) throws(ImageError) -> (value: Value, notes: [String]) {
        switch attempt(.warning, body) {
        case .success(let result): return (result.value, result.notes)
        case .failure(let error):
            if let ended = deadline.error ?? error.cause { throw ended }
            if failOn == .warning { throw described(error, failOn) }
            return try last(failOn, remark: JPEGDamage.note(error.text), deadline, body)
        }
    }

    private func last<Value>(
        _ failOn: Rendition.FailOn,
        remark: String,
        _ deadline: RenderDeadline,
        _ body: (DecodingAttempt.Source) throws(VipsError) -> Value
    ) throws(ImageError) -> (value: Value, notes: [String]) {
        switch attempt(failOn, body) {
        case .success(let result): return (result.value, RenderNotes.merged([remark], result.notes))
        case .failure(let error): throw deadline.error ?? described(error, failOn)
        }
    }

    /// The error for damage that is not tolerated, with the remedy if the format has one: of an interlaced PNG libvips
    /// decodes all rows or none.
    private func described(_ error: VipsError, _ failOn: Rendition.FailOn) -> ImageError {
        let interlacing = 28
        let isInRows = type == .png && data.count > interlacing && data[data.startIndex + interlacing] == 0
        guard failOn != .nothing, error.cause == nil, isInRows || type == .gif else { return error.asDecodingError() }
        return .decoding(JPEGDamage.withRemedy(error.text))
    }

    private func attempt<Value>(
        _ failOn: Rendition.FailOn,
        _ body: (DecodingAttempt.Source) throws(VipsError) -> Value
    ) -> Result<(value: Value, notes: [String], hasErrors: Bool), VipsError> {
        DecodingAttempt(data, type, failOn: failOn).result { source throws(VipsError) in
            let value = try body(source)
            return (value, source.notes, VipsMessages.hasErrors)
        }
    }
}
