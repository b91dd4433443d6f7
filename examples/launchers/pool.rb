# Runs one job after the other in this process (launcher_mode = pool). What a job leaves behind, the
# next one finds: globals, open transactions, changed settings.
# require "application"

# Runs one job; what it returns is the job's exit code.
def run(job)
  puts "job #{job}, attempt #{ENV.fetch('JOBD_ATTEMPT', 1)}"
  0
end

# The exit code of a job, however it ends.
def result(job)
  Integer(run(job) || 0) & 255
rescue SystemExit => e # exit ends the job, and not this process
  e.status & 255
rescue StandardError => e
  warn e.full_message(highlight: false, order: :bottom) # the last line says what failed
  1
end

requests, answers = IO.new(3, "r"), IO.new(4, "w")
answers.sync = true
$stdout.flush # what was written while loading is no job's
answers.puts "ready"
while (line = requests.gets) && line != "quit\n"
  _, job, _, *variables = line.split
  variables = variables.to_h { |v| v.gsub(/%(\h\h)/) { $1.hex.chr }.split("=", 2) }
  ENV.update(variables)
  answers.puts "started #{job}"
  code = result(Integer(job))
  variables.each_key { |name| ENV.delete(name) }
  $stdout.flush
  answers.puts "exit #{job} #{code}"
end
