# Switches off in kubeadm's manifest of kube-controller-manager what the Deployment in this folder runs.
s/^\( *- --controllers=\).*/\1*,bootstrapsigner,tokencleaner,-job-controller,-cronjob-controller,-ttl-after-finished-controller/
