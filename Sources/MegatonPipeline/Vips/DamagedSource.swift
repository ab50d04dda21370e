internal import Foundation

/// A source that may be damaged, and is decoded as far as its caller puts up with that.
///
/// It is read with every damage being an error first, which costs nothing where there is none. What fails is judged, and
/// read once more where the damage is tolerated: with a remark that says what it was.
struct DamagedSource {
    let data: Data
    let type: AssetType
    /// Of a JPEG, if it is known already.
    var damage: JPEGDamage?

    /// - Parameter body: reads the source; is called again after a failure.
    /// - Returns: what the body returned, and remarks.
    /// - Throws: `.corruptImage`; `.renderTimedOut` or `.cancelled` where that is what ended it; `.renderFailed` where
    ///   libvips is too old.
    func decoding<Value>(
        _ failOn: Rendition.FailOn,
        until deadline: RenderDeadline,
        _ body: (DecodingAttempt.Source) throws(VipsError) -> Value
    ) throws(ImagePipeline.Error) -> (value: Value, notes: [String]) {
        // The header may have been read without libvips.
        try VipsRuntime.start()
        guard type == .jpeg else { return try decodingOthers(failOn, deadline, body) }
        var damage = damage ?? JPEGDamage(ofScansIn: data, nil)
        // libvips reads no further than to the last row.
        if damage == nil, failOn == .warning { damage = JPEGDamage(examining: data, until: deadline) }
        if damage == nil {
            switch attempt(.warning, body) {
            case .success(let result):
                // libvips 8.14 looks for warnings of one strip of rows before it reads the next: those of the last strip
                // leave a message and no failure.
                guard result.hasErrors else { return (result.value, result.notes) }
                damage = JPEGDamage(examining: data, until: deadline)
                if let ended = deadline.error { throw ended }
                guard let damage else { return (result.value, result.notes) }
                guard damage.isTolerated(by: failOn) else { throw damage.error }
                return (result.value, RenderNotes.merged([damage.note], result.notes))
            case .failure(let error):
                if let ended = deadline.error { throw ended }
                damage = JPEGDamage(examining: data, until: deadline)
                // It is not the data that made it fail.
                if damage == nil { throw deadline.error ?? error.asCorruptImage() }
            }
        }
        guard let damage, damage.isTolerated(by: failOn) else {
            throw deadline.error ?? damage?.error ?? VipsError("no details").asCorruptImage()
        }
        return try last(.nothing, remark: damage.note, deadline, body)
    }

    private func decodingOthers<Value>(
        _ failOn: Rendition.FailOn,
        _ deadline: RenderDeadline,
        _ body: (DecodingAttempt.Source) throws(VipsError) -> Value
    ) throws(ImagePipeline.Error) -> (value: Value, notes: [String]) {
        switch attempt(.warning, body) {
        case .success(let result): return (result.value, result.notes)
        case .failure(let error):
            if let ended = deadline.error { throw ended }
            if failOn == .warning { throw error.asCorruptImage() }
            return try last(failOn, remark: JPEGDamage.note(error.text), deadline, body)
        }
    }

    private func last<Value>(
        _ failOn: Rendition.FailOn,
        remark: String,
        _ deadline: RenderDeadline,
        _ body: (DecodingAttempt.Source) throws(VipsError) -> Value
    ) throws(ImagePipeline.Error) -> (value: Value, notes: [String]) {
        switch attempt(failOn, body) {
        case .success(let result): return (result.value, RenderNotes.merged([remark], result.notes))
        case .failure(let error): throw deadline.error ?? error.asCorruptImage()
        }
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
